// Aim: a process sees what it was granted, not what the machine has. Method: folders that look like
// /proc and /sys/fs/cgroup of containers and of bare machines, with grants worked out by hand.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <stoker/device/cpu.h>
#include <stoker/device/gpu.h>
#include <stoker/device/lease.h>

namespace stoker::device {
namespace {

class GrantTest : public ::testing::Test {
 protected:
  GrantTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stoker_device_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    Write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n");
    Write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Processor 9000\n");
    sources_ = {root_ + "/proc", root_ + "/cgroup", 8};
  }
  ~GrantTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, std::string_view text) {
    const std::filesystem::path full = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root_;
  CpuSources sources_;
};

constexpr uint64_t kGib = uint64_t{1} << 30;

TEST_F(GrantTest, TheMachineWithoutGroups) {
  const CpuGrant grant = GrantedCpu(sources_);
  EXPECT_EQ(grant.cores, 8);
  EXPECT_EQ(grant.memory_bytes, 16 * kGib);
  EXPECT_EQ(grant.limited_by, "");
  EXPECT_EQ(CpuName(sources_), "Some Processor 9000");
}

TEST_F(GrantTest, UnifiedGroupsTakeTheTightestLevel) {
  Write("proc/self/cgroup", "0::/pods/one\n");
  Write("cgroup/pods/cpu.max", "150000 100000\n");
  Write("cgroup/pods/one/cpu.max", "max 100000\n");
  Write("cgroup/pods/memory.max", "max\n");
  Write("cgroup/pods/one/memory.max", "2147483648\n");
  const CpuGrant grant = GrantedCpu(sources_);
  EXPECT_EQ(grant.cores, 2);
  EXPECT_EQ(grant.memory_bytes, 2 * kGib);
  EXPECT_EQ(grant.limited_by, "cores by cgroup, memory by cgroup");
}

TEST_F(GrantTest, InsideAContainerTheMountedRootCounts) {
  Write("proc/self/cgroup", "0::/system.slice/docker-abc.scope\n");
  Write("cgroup/cpu.max", "50000 100000\n");
  Write("cgroup/memory.max", "1073741824\n");
  const CpuGrant grant = GrantedCpu(sources_);
  EXPECT_EQ(grant.cores, 1);
  EXPECT_EQ(grant.memory_bytes, kGib);
}

TEST_F(GrantTest, OldGroups) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n1:name=systemd:/x\n");
  Write("cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  Write("cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  Write("cgroup/memory/a/memory.limit_in_bytes", "4294967296\n");
  Write("cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  const CpuGrant grant = GrantedCpu(sources_);
  EXPECT_EQ(grant.cores, 3);
  EXPECT_EQ(grant.memory_bytes, 4 * kGib);
}

TEST_F(GrantTest, NonsenseIsNoLimit) {
  Write("proc/self/cgroup", "rubbish\n0::/../../etc\n0::/a\n");
  Write("cgroup/a/cpu.max", "-1 0\n");
  Write("cgroup/a/memory.max", "lots\n");
  const CpuGrant grant = GrantedCpu(sources_);
  EXPECT_EQ(grant.cores, 8);
  EXPECT_EQ(grant.memory_bytes, 16 * kGib);
}

TEST_F(GrantTest, ThisProcessHasSomething) {
  const CpuGrant grant = GrantedCpu();
  EXPECT_GE(grant.cores, 1);
  EXPECT_GT(grant.memory_bytes, 0u);
  EXPECT_TRUE(CpuLevel().starts_with("x86-64"));
}

TEST_F(GrantTest, NoNodeOrNoDriverIsNoGpu) {
  std::filesystem::create_directories(root_ + "/dev");
  EXPECT_EQ(SeenGpu({root_ + "/dev", "libcuda.so.1"}), "");
  Write("dev/nvidiactl", "");
  EXPECT_EQ(SeenGpu({root_ + "/dev", "libcuda.so.1"}), "");
  Write("dev/nvidia0", "");
  EXPECT_EQ(SeenGpu({root_ + "/dev", root_ + "/no_such_driver.so"}), "");
}

class CountingLease final : public Lease {
 public:
  LeaseGrant Acquire() override {
    ++held;
    return LeaseGrant(this);
  }
  int held = 0;

 private:
  void Release() override { --held; }
};

TEST(LeaseTest, AGrantIsGivenBackOnce) {
  CountingLease lease;
  {
    LeaseGrant first = lease.Acquire();
    LeaseGrant second = std::move(first);
    EXPECT_EQ(lease.held, 1);
  }
  EXPECT_EQ(lease.held, 0);
  const auto open = MakeOpenLease();
  const LeaseGrant a = open->Acquire();
  const LeaseGrant b = open->Acquire();
}

}  // namespace
}  // namespace stoker::device

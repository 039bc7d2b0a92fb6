// Thread: runs its body under its name and is joined whatever happens to the object.
#include <stoker/base/thread.h>

#include <pthread.h>

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(ThreadTest, RunsNamedAndIsJoined) {
  char name[16] = {};
  std::thread::id inside;
  Thread thread("a-rather-long-name", [&] {
    pthread_getname_np(pthread_self(), name, sizeof(name));
    inside = std::this_thread::get_id();
  });
  const std::thread::id id = thread.id();
  thread.Join();
  thread.Join();
  EXPECT_STREQ(name, "a-rather-long-n");
  EXPECT_EQ(inside, id);
  EXPECT_FALSE(thread.joinable());
}

TEST(ThreadTest, MoveAndDestructionJoin) {
  std::atomic<int> done = 0;
  std::latch go(1);
  {
    Thread first("first", [&] {
      go.wait();
      ++done;
    });
    Thread moved = std::move(first);
    EXPECT_TRUE(moved.joinable());
    go.count_down();
    moved = Thread("second", [&] { ++done; });
    EXPECT_GE(done, 1);
  }
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace stoker::base

// The gate: refuses after Close, Wait returns when and only when the last pass has left, and no work
// slips through under contention.
#include <stoker/base/gate.h>

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(GateTest, CountsAndRefusesWhenClosed) {
  Gate gate;
  Gate::Pass first = gate.Enter();
  Gate::Pass second = gate.Enter();
  EXPECT_TRUE(first && second);
  EXPECT_EQ(gate.inside(), 2u);
  Gate::Pass moved = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: what a moved-from pass says is part of the contract
  EXPECT_EQ(gate.inside(), 2u);
  second = std::move(moved);
  EXPECT_EQ(gate.inside(), 1u);
  gate.Close();
  gate.Close();
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(gate.Enter());
  EXPECT_FALSE(gate.WaitFor(0));
  second.Leave();
  second.Leave();
  EXPECT_EQ(gate.inside(), 0u);
  EXPECT_TRUE(gate.WaitFor(0));
  gate.Wait();
}

TEST(GateTest, WaitSeesAllWorkAndMayDestroyTheGate) {
  for (int round = 0; round < 30; ++round) {
    auto gate = std::make_unique<Gate>();
    std::atomic<int> begun = 0;
    int done[4] = {};  // plain ints: a race here is a failure of the gate
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i, shared = gate.get()] {
        Gate::Pass pass = shared->Enter();
        ++begun;
        // Enter the gate again only while holding a pass: it may be gone otherwise.
        for (Gate::Pass inner; pass && (inner = shared->Enter());) ++done[i];
      });
    }
    while (begun < 4) std::this_thread::yield();
    gate->Close();
    gate->Wait();
    const int sum = done[0] + done[1] + done[2] + done[3];
    gate.reset();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(done[0] + done[1] + done[2] + done[3], sum);
  }
}

TEST(GateDeathTest, MisuseIsABug) {
  EXPECT_DEATH(Gate().Wait(), "CHECK failed");
  EXPECT_DEATH(
      {
        auto gate = std::make_unique<Gate>();
        const Gate::Pass pass = gate->Enter();
        gate.reset();
      },
      "CHECK failed");
}

}  // namespace
}  // namespace stoker::base

// ReleaseOrder against the obvious definition: an answer goes out when all earlier ones are settled.

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <stoker/batching/release_order.h>

namespace stoker::batching {
namespace {

using Tickets = std::vector<Ticket>;

// Known fault: answers of several instances overtook each other (fixed upstream by core#520).
TEST(ReleaseOrderTest, OrderIsKeptAcrossInstances) {
  ReleaseOrder order;
  const auto a = order.Admit(10), b = order.Admit(20), c = order.Admit(30);
  Tickets out;
  order.Finish(c, &out);
  order.Finish(b, &out);
  EXPECT_EQ(out, Tickets{});
  EXPECT_TRUE(order.IsFirst(a));
  EXPECT_FALSE(order.IsFirst(b));
  order.Finish(a, &out);
  EXPECT_EQ(out, (Tickets{10, 20, 30}));
  EXPECT_EQ(order.held(), 0u);
}

TEST(ReleaseOrderTest, AbandonedPlacesFreeThoseBehind) {
  ReleaseOrder order;
  const auto a = order.Admit(1), b = order.Admit(2), c = order.Admit(3);
  Tickets out;
  order.Finish(b, &out);
  order.Abandon(c, &out);
  EXPECT_EQ(out, Tickets{});
  order.Abandon(a, &out);
  EXPECT_EQ(out, Tickets{2});
  order.Finish(a, &out);
  order.Finish(c, &out);
  EXPECT_EQ(out, Tickets{2});
  EXPECT_FALSE(order.IsFirst(c));
}

TEST(ReleaseOrderTest, RandomSettlementsMatchTheDefinition) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    ReleaseOrder order;
    struct Place {
      ReleaseOrder::Position position;
      int state;  // 0 open, 1 finished, 2 abandoned
    };
    std::vector<Place> places;
    size_t settled = 0;
    Tickets got, want;
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0) {
        places.push_back({order.Admit(places.size()), 0});
      } else if (!places.empty()) {
        Place& place = places[random() % places.size()];
        const int state = 1 + static_cast<int>(random() % 2);
        if (place.state == 0) place.state = state;
        state == 1 ? order.Finish(place.position, &got) : order.Abandon(place.position, &got);
      }
      for (; settled < places.size() && places[settled].state != 0; ++settled) {
        if (places[settled].state == 1) want.push_back(settled);
      }
      ASSERT_EQ(got, want);
      ASSERT_EQ(order.held(), places.size() - settled);
    }
  }
}

}  // namespace
}  // namespace stoker::batching

// Aim: answers of a stream come in order, errors and ends are where they belong, every bound holds.
// Method: a host that answers when the test says, and an output that keeps what it is given.
#include "grpc/infer_stream.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <infer_testing.pb.h>

#include <stoker/base/executor.h>
#include <stoker/base/rng.h>
#include <stoker/base/testing/manual_clock.h>
#include <stoker/base/testing/random_seed.h>

#include "testing/fake_host.h"
#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using base::StatusCode;
using stoker::testing::ModelInferRequest;
using stoker::testing::ModelStreamInferResponse;
using tensor::DataType;
using testing::FakeHost;
using testing::TableModel;

/// What a stream has sent. Thread-safe.
struct Sent {
  base::Mutex mutex;
  std::vector<ModelStreamInferResponse> messages GUARDED_BY(mutex);
  std::vector<base::Status> ends GUARDED_BY(mutex);
  bool reads = true;

  std::vector<std::string> ids() {
    base::MutexLock lock(&mutex);
    std::vector<std::string> out;
    for (const auto& message : messages) {
      out.push_back((message.error_message().empty() ? "" : "!") + message.infer_response().id());
    }
    return out;
  }
  std::vector<base::Status> ended() {
    base::MutexLock lock(&mutex);
    return ends;
  }
};

class KeepingOutput final : public StreamOutput {
 public:
  explicit KeepingOutput(std::shared_ptr<Sent> sent) : sent_(std::move(sent)) {}
  bool Write(std::vector<base::Bytes> parts) override {
    std::string bytes;
    for (const auto& part : parts) bytes += part.text();
    base::MutexLock lock(&sent_->mutex);
    if (!sent_->reads) return false;
    EXPECT_TRUE(sent_->messages.emplace_back().ParseFromString(bytes));
    return true;
  }
  void Finish(base::Status status) override {
    base::MutexLock lock(&sent_->mutex);
    sent_->ends.push_back(std::move(status));
  }

 private:
  std::shared_ptr<Sent> sent_;
};

class InferStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const TableModel model =
        TableModel(0).Input("IN", DataType::kInt8, {-1}).Output("OUT", DataType::kInt8, {-1});
    host_.Serve("inline", model.Ref());
    host_.Serve("m", TableModel(model).Inline(false).Ref());
    Open({});
  }

  void Open(InferStreamOptions stream_options) {
    context_ = {&host_, &executor_, &clock_, nullptr, nullptr};
    sent_ = std::make_shared<Sent>();
    stream_ = std::make_shared<InferStream>(context_, options_, stream_options,
                                            std::make_unique<KeepingOutput>(sent_));
  }

  static std::string Request(const std::string& id, const std::string& model = "m", size_t bytes = 1) {
    ModelInferRequest request;
    request.set_model_name(model);
    request.set_id(id);
    auto* input = request.add_inputs();
    input->set_name("IN");
    input->set_datatype("INT8");
    input->add_shape(static_cast<int64_t>(bytes));
    request.add_raw_input_contents(std::string(bytes, 'x'));
    return request.SerializeAsString();
  }
  void Add(const std::string& id, const std::string& model = "m") {
    stream_->Add(base::Bytes::Own(Request(id, model)));
  }

  FakeHost host_;
  base::Executor executor_{{}};
  base::testing::ManualClock clock_;
  DoorOptions options_;
  DoorContext context_;
  std::shared_ptr<Sent> sent_;
  std::shared_ptr<InferStream> stream_;
};

using Ids = std::vector<std::string>;

TEST_F(InferStreamTest, AnswersLeaveInTheOrderOfTheRequests) {
  for (const char* id : {"a", "b", "c"}) Add(id);
  host_.Echo(2);
  host_.Echo(1);
  EXPECT_EQ(sent_->ids(), Ids{});
  host_.Echo(0);
  EXPECT_EQ(sent_->ids(), (Ids{"a", "b", "c"}));
  EXPECT_TRUE(sent_->ended().empty());
  stream_->HalfClose();
  EXPECT_EQ(sent_->ended(), (std::vector{base::OkStatus()}));
}

TEST_F(InferStreamTest, FinishesAfterTheLastAnswer) {
  Add("a");
  stream_->HalfClose();
  EXPECT_TRUE(sent_->ended().empty());
  host_.Echo(0);
  EXPECT_EQ(sent_->ended(), (std::vector{base::OkStatus()}));
}

TEST_F(InferStreamTest, AnErrorAnswersItsOwnRequest) {
  Add("a");
  Add("b", "nobody");
  Add("c");
  host_.Echo(1);  // of c: b never reached the host
  host_.Fail(0, base::Unavailable("busy"));
  EXPECT_EQ(sent_->ids(), (Ids{"!a", "!b", "c"}));
  base::MutexLock lock(&sent_->mutex);
  EXPECT_EQ(sent_->messages[0].error_message(), "[request id: a] busy");
  EXPECT_EQ(sent_->messages[1].error_message(), "Request for unknown model: 'nobody' is not found");
}

TEST_F(InferStreamTest, ErrorsEndTheStreamWhenAsked) {
  Open({.errors_end_stream = true});
  Add("a");
  Add("b", "nobody");
  Add("c");
  EXPECT_TRUE(sent_->ended().empty());  // the answer to a comes first
  const auto left = host_.submitted[1].request->cancellation;
  host_.Echo(0);
  EXPECT_EQ(sent_->ids(), Ids{"a"});
  ASSERT_EQ(sent_->ended().size(), 1u);
  EXPECT_EQ(sent_->ended()[0].code(), StatusCode::kNotFound);
  EXPECT_TRUE(left->cancelled());
  host_.Echo(1);
  Add("d");
  stream_->HalfClose();
  EXPECT_EQ(sent_->ids(), Ids{"a"});
  EXPECT_EQ(sent_->ended().size(), 1u);
}

TEST_F(InferStreamTest, ABrokenMessageEndsTheStream) {
  Add("a");
  stream_->Add(base::Bytes::Static("\xff\xff\xff\xff"));
  host_.Echo(0);
  EXPECT_EQ(sent_->ids(), Ids{"a"});
  ASSERT_EQ(sent_->ended().size(), 1u);
  EXPECT_EQ(sent_->ended()[0].code(), StatusCode::kInternal);
}

TEST_F(InferStreamTest, DecoupledAnswersDoNotWait) {
  Add("first");
  Add("many");
  Add("last");
  host_.Echo(1, false);
  host_.Echo(1, false);
  EXPECT_EQ(sent_->ids(), (Ids{"many", "many"}));
  host_.Echo(2);
  EXPECT_EQ(sent_->ids().size(), 2u);  // waits for the first
  host_.Echo(0);
  EXPECT_EQ(sent_->ids(), (Ids{"many", "many", "first", "last"}));
  stream_->HalfClose();
  EXPECT_TRUE(sent_->ended().empty());
  host_.EndEmpty(1);  // no message: it was not asked for
  EXPECT_EQ(sent_->ids().size(), 4u);
  EXPECT_EQ(sent_->ended(), (std::vector{base::OkStatus()}));
}

TEST_F(InferStreamTest, EmptyFinalMessageWhenAsked) {
  ModelInferRequest request;
  ASSERT_TRUE(request.ParseFromString(Request("e")));
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  stream_->Add(base::Bytes::Own(request.SerializeAsString()));
  host_.Echo(0, false);
  host_.EndEmpty(0);
  ASSERT_EQ(sent_->ids(), (Ids{"e", "e"}));
  base::MutexLock lock(&sent_->mutex);
  EXPECT_FALSE(sent_->messages[0].infer_response().parameters().at("triton_final_response").bool_param());
  EXPECT_TRUE(sent_->messages[1].infer_response().parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(sent_->messages[1].infer_response().model_version(), "");
}

TEST_F(InferStreamTest, RequestsInFlightAreBounded) {
  for (size_t i = 0; i < kStreamRequestsMax + 3; ++i) Add(std::to_string(i));
  EXPECT_EQ(host_.submitted.size(), kStreamRequestsMax);
  EXPECT_EQ(sent_->ids(), (Ids{"!1024", "!1025", "!1026"}));
  {
    base::MutexLock lock(&sent_->mutex);
    EXPECT_NE(sent_->messages[0].error_message().find("Exceeds maximum queue size"), std::string::npos);
  }
  host_.Echo(0);
  Add("again");
  EXPECT_EQ(host_.submitted.size(), kStreamRequestsMax + 1);
}

TEST_F(InferStreamTest, CancelReachesEveryRequest) {
  Add("a");
  Add("b");
  Add("i", "inline");
  EXPECT_EQ(host_.submitted[2].request->cancellation, nullptr);
  stream_->Cancel();
  EXPECT_TRUE(host_.submitted[0].request->cancellation->cancelled());
  EXPECT_TRUE(host_.submitted[1].request->cancellation->cancelled());
  host_.Fail(0, base::Cancelled("gone"));
  EXPECT_EQ(sent_->ids(), Ids{});
  EXPECT_TRUE(sent_->ended().empty());
}

TEST_F(InferStreamTest, CancellingMayAnswerAtOnce) {
  Add("a");
  host_.submitted[0].request->cancellation->SetHook([this] { host_.Fail(0, base::Cancelled("gone")); });
  stream_->Cancel();
  EXPECT_EQ(sent_->ids(), Ids{});
}

TEST_F(InferStreamTest, AClientThatDoesNotReadIsCut) {
  Add("a");
  Add("b");
  {
    base::MutexLock lock(&sent_->mutex);
    sent_->reads = false;
  }
  host_.Echo(0);
  ASSERT_EQ(sent_->ended().size(), 1u);
  EXPECT_EQ(sent_->ended()[0].code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(host_.submitted[1].request->cancellation->cancelled());
}

TEST_F(InferStreamTest, LargeRequestsKeepTheOrderOfSubmission) {
  options_.inline_body_bytes_max = 200;
  host_.echo_at_once = true;
  Ids wanted;
  for (int i = 0; i < 200; ++i) {
    wanted.push_back(std::to_string(i));
    stream_->Add(base::Bytes::Own(Request(wanted.back(), "inline", i % 3 == 0 ? 1000 : 1)));
  }
  stream_->HalfClose();
  executor_.Shutdown();  // runs what is queued
  EXPECT_EQ(sent_->ids(), wanted);
  EXPECT_EQ(sent_->ended(), (std::vector{base::OkStatus()}));
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(host_.submitted[static_cast<size_t>(i)].request->id, wanted[static_cast<size_t>(i)]);
}

TEST_F(InferStreamTest, WithoutAnExecutorLargeRequestsAreRefused) {
  options_.inline_body_bytes_max = 200;
  executor_.Shutdown();
  stream_->Add(base::Bytes::Own(Request("large", "m", 1000)));
  Add("small");
  host_.Echo(0);
  EXPECT_EQ(sent_->ids(), (Ids{"!", "small"}));
}

// Threads answer in any order while requests come in and, in half of the rounds, the call is cancelled.
TEST_F(InferStreamTest, AnswersFromManyThreads) {
  base::Rng rng(base::testing::RandomSeed());
  for (int round = 0; round < 30; ++round) {
    host_.submitted.clear();
    Open({});
    Ids wanted;
    for (int i = 0; i < 60; ++i) {
      wanted.push_back(std::to_string(i));
      Add(wanted.back());
    }
    for (size_t i = host_.submitted.size(); i > 1; --i)
      std::swap(host_.submitted[i - 1], host_.submitted[rng.Below(i)]);
    const bool cancel = round % 2 == 1;
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([this, &next] {
        for (size_t i = next++; i < host_.submitted.size(); i = next++) host_.Echo(i);
      });
    }
    if (cancel) {
      stream_->Cancel();
    } else {
      stream_->HalfClose();
    }
    for (auto& thread : threads) thread.join();
    const Ids got = sent_->ids();
    ASSERT_LE(got.size(), wanted.size());
    EXPECT_EQ(got, Ids(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(got.size())));
    EXPECT_EQ(sent_->ended().size(), cancel ? 0u : 1u);
    if (!cancel) {
      EXPECT_EQ(got.size(), wanted.size());
    }
  }
}

}  // namespace
}  // namespace stoker::serve

// Aim: the host as its doors use it. Method: real folders of models run by the identity and the fake
// engine; every answer is compared with what the request makes it.
#include <stoker/host/host.h>

#include <gtest/gtest.h>

#include "host_fixture.h"

namespace stoker::host {
namespace {

constexpr char kIdentity[] = R"(
  backend: "identity" max_batch_size: 8
  input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]
  output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ])";

TEST_F(HostTest, ServesAnIdentityModel) {
  AddModel("ident", kIdentity);
  StartHost();
  EXPECT_TRUE(host().ready());
  EXPECT_EQ(host().Versions("ident"), std::vector<int64_t>{1});
  const Answer answer = Infer("ident", {FloatInput("INPUT0", {2, 16}, 7)});
  ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
  ASSERT_EQ(answer.outputs.size(), 1u);
  EXPECT_EQ(answer.outputs[0].tensor.shape, (tensor::Shape{2, 16}));
  EXPECT_EQ(answer.outputs[0].tensor.bytes.text(), FloatInput("INPUT0", {2, 16}, 7).tensor.bytes.text());
}

}  // namespace
}  // namespace stoker::host

#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <stoker/base/rng.h>
#include <stoker/engines/engine.h>

namespace stoker::engines::testing {

/// A model and what is known about it, for the tests that every engine has to pass.
struct ConformanceModel {
  std::string label;  // letters and digits only: part of the test's name
  std::function<std::unique_ptr<Engine>()> make_engine;
  ModelSpec spec;  // complete; the version path is filled in from `files`
  /// Files of the version folder: name and content. A model without files skips the tests about them.
  std::vector<std::pair<std::string, std::string>> files;
  /// Inputs for that many rows.
  std::function<std::vector<tensor::Tensor>(int64_t rows, base::Rng& rng)> make_inputs;
  /// What the outputs should be, by slow and independent means.
  std::function<std::vector<tensor::Tensor>(const std::vector<tensor::Tensor>& inputs, int64_t rows)>
      reference;
  double tolerance = 0;          // of floating-point outputs, relative to 1 + |value|
  bool batchable = true;         // what Describe must say
  bool fails_on_cap = true;      // outputs take memory, so that a cap of 0 bytes fails a Run
  int reloads = 60;              // of the test that memory does not grow
  int64_t growth_kb_max = 4096;  // between the second and the last third of them
};

void PrintTo(const ConformanceModel& model, std::ostream* out);

/// The suite EngineConformanceTest (testing/conformance.cc, listed among the sources of the test
/// binary). Instantiate it with INSTANTIATE_TEST_SUITE_P over ConformanceModels.
class EngineConformanceTest : public ::testing::TestWithParam<ConformanceModel> {
 protected:
  void SetUp() override;
  void TearDown() override;

  const ConformanceModel& model() const { return GetParam(); }
  /// Writes the model's files, all or as `change` leaves them.
  void WriteFiles(const std::function<void(std::string* content)>& change = {});
  std::unique_ptr<EngineModel> LoadOrFail();
  /// Runs `rows` rows on `instance` and compares with the reference.
  void RunAndCompare(EngineInstance* instance, int64_t rows, base::Rng& rng);

  std::string folder_;
  ModelSpec spec_;
  std::unique_ptr<Engine> engine_;
};

/// The name of a parameter for INSTANTIATE_TEST_SUITE_P.
std::string ConformanceName(const ::testing::TestParamInfo<ConformanceModel>& info);

/// A tensor from values, and one of kBytes from texts.
template <typename T>
tensor::Tensor MakeTensor(tensor::DataType type, tensor::Shape shape, const std::vector<T>& values) {
  return {.type = type,
          .shape = std::move(shape),
          .bytes = base::Bytes::Own(
              std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)))};
}
tensor::Tensor MakeTextTensor(tensor::Shape shape, const std::vector<std::string>& values);

/// Elements of a tensor of floats.
std::vector<float> Floats(const tensor::Tensor& tensor);

/// Whether two tensors have one type, shape and value; floating-point ones within `tolerance`.
::testing::AssertionResult SameTensor(const tensor::Tensor& got, const tensor::Tensor& wanted,
                                      double tolerance);

}  // namespace stoker::engines::testing

#include "warmup.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <stoker/base/rng.h>
#include <stoker/base/str_cat.h>

#include "repository/folder_files.h"

namespace stoker::host {
namespace {

using base::StrCat;
using tensor::DataType;

constexpr size_t kBytesMax = size_t{1} << 30;  // of one warm-up input
constexpr uint32_t kRoundsMax = 1'000'000;
constexpr uint64_t kSeed = 20;

// Random bits that are a number between 0 and 1 for the floating-point types, anything otherwise.
uint64_t RandomElement(DataType type, base::Rng* rng) {
  const double unit = rng->Uniform();
  uint64_t bits = 0;
  switch (type) {
    case DataType::kBool:
      return rng->Below(2);
    case DataType::kFp16:
      return rng->Below(0x3c00);
    case DataType::kBf16:
      return rng->Below(0x3f80);
    case DataType::kFp32: {
      const auto value = static_cast<float>(unit);
      std::memcpy(&bits, &value, sizeof(value));
      return bits;
    }
    case DataType::kFp64:
      std::memcpy(&bits, &unit, sizeof(unit));
      return bits;
    default:
      return rng->Next64();
  }
}

std::string MakeStrings(int64_t count, bool random) {
  base::Rng rng(kSeed);
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    std::string text(random ? rng.Below(16) : 0, ' ');
    for (char& c : text) c = static_cast<char>('a' + rng.Below(26));
    tensor::AppendBytesElement(&out, text);
  }
  return out;
}

std::string MakeNumbers(DataType type, int64_t count, bool random) {
  const size_t size = tensor::ElementSize(type);
  std::string out(static_cast<size_t>(count) * size, '\0');
  if (!random) return out;
  base::Rng rng(kSeed);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = RandomElement(type, &rng);
    std::memcpy(out.data() + static_cast<size_t>(i) * size, &bits, size);
  }
  return out;
}

base::Result<std::string> MakeData(const WarmupConfig::Input& input, const std::string& folder) {
  if (input.data == WarmupConfig::Input::Data::kFile) {
    const bool inside =
        !input.file.empty() && input.file.front() != '/' && input.file.find("..") == std::string::npos;
    if (!inside)
      return base::InvalidArgument(
          StrCat("input_data_file ", base::Quoted(input.file), " must lie in the model's warmup folder"));
    return ReadFile(StrCat(folder, "/warmup/", input.file), kBytesMax);
  }
  const size_t size = std::max<size_t>(tensor::ElementSize(input.type), 4);
  STOKER_ASSIGN_OR_RETURN(const int64_t count, input.dims.ElementCount(size));
  if (static_cast<uint64_t>(count) > kBytesMax / size) {
    return base::InvalidArgument(
        StrCat("dims ", input.dims.ToString(), " are larger than ", kBytesMax, " bytes"));
  }
  const bool random = input.data == WarmupConfig::Input::Data::kRandom;
  return input.type == DataType::kBytes ? MakeStrings(count, random) : MakeNumbers(input.type, count, random);
}

base::Result<WarmupSample> MakeSample(const ModelConfig& config, const WarmupConfig& warmup,
                                      const std::string& folder) {
  WarmupSample sample;
  sample.name = warmup.name;
  sample.requests = std::max<uint32_t>(warmup.batch_size, 1);
  sample.rounds = std::clamp<uint32_t>(warmup.count, 1, kRoundsMax);
  if (sample.requests > static_cast<uint64_t>(std::max<int64_t>(config.max_batch_size, 1))) {
    return base::InvalidArgument(StrCat("batch_size is ", warmup.batch_size, ", must be at most ",
                                        std::max<int64_t>(config.max_batch_size, 1), " (max_batch_size)"));
  }
  for (const WarmupConfig::Input& input : warmup.inputs) {
    auto data = MakeData(input, folder);
    if (!data.ok()) return data.status().WithContext(StrCat("input '", input.name, "'"));
    sample.input_names.push_back(input.name);
    sample.inputs.push_back({input.type, config.max_batch_size > 0 ? input.dims.WithLeading(1) : input.dims,
                             base::Bytes::Own(std::move(*data))});
  }
  return sample;
}

base::Status RunSample(const IoPlan& plan, const WarmupSample& sample, BatchRunner* runner) {
  std::vector<InferRequest> requests(sample.requests);
  std::vector<CheckedRequest> checked(sample.requests);
  std::vector<BatchItem> items(sample.requests);
  for (size_t r = 0; r < sample.requests; ++r) {
    for (size_t i = 0; i < sample.inputs.size(); ++i)
      requests[r].inputs.push_back({sample.input_names[i], sample.inputs[i]});
    STOKER_RETURN_IF_ERROR(CheckRequest(plan, &requests[r], &checked[r]));
    items[r].request = &requests[r];
    items[r].checked = &checked[r];
  }
  runner->Run(items, 0);
  for (const BatchItem& item : items) STOKER_RETURN_IF_ERROR(item.response.status);
  return base::OkStatus();
}

}  // namespace

base::Result<std::vector<WarmupSample>> MakeWarmups(const ModelConfig& config, const std::string& folder) {
  std::vector<WarmupSample> samples;
  for (const WarmupConfig& warmup : config.warmups) {
    auto sample = MakeSample(config, warmup, folder);
    if (!sample.ok())
      return sample.status().WithContext(StrCat("failed to prepare warmup sample '", warmup.name, "'"));
    samples.push_back(std::move(*sample));
  }
  return samples;
}

base::Status RunWarmups(const IoPlan& plan, const std::vector<WarmupSample>& samples, BatchRunner* runner) {
  for (const WarmupSample& sample : samples) {
    for (uint32_t round = 0; round < sample.rounds; ++round) {
      const base::Status status = RunSample(plan, sample, runner);
      if (!status.ok()) return status.WithContext(StrCat("failed to run warmup sample '", sample.name, "'"));
    }
  }
  return base::OkStatus();
}

}  // namespace stoker::host

#include <stoker/tensor/tensor.h>

#include <cstring>

#include <stoker/base/str_cat.h>

namespace stoker::tensor {
namespace {

using base::StrCat;

base::Status CheckElements(std::string_view name, const Tensor& tensor, int64_t wanted) {
  BytesReader reader(tensor.bytes.span());
  std::string_view element;
  int64_t found = 0;
  while (found < wanted && reader.Next(&element)) ++found;
  if (!reader.ok()) {
    return base::InvalidArgument(
        StrCat("incomplete string data for inference input '", name, "': element ", found, " at byte ",
               reader.consumed(), " of ", tensor.bytes.size(),
               " is cut short; each element is a 4-byte little-endian length and its bytes"));
  }
  if (found != wanted) {
    return base::InvalidArgument(StrCat("unexpected number of string elements ", found,
                                        " for inference input '", name, "', expecting ", wanted,
                                        " for shape ", tensor.shape.ToString()));
  }
  if (reader.consumed() != tensor.bytes.size()) {
    return base::InvalidArgument(StrCat("unexpected number of string elements for inference input '", name,
                                        "', expecting ", wanted, " for shape ", tensor.shape.ToString(),
                                        ", got ", tensor.bytes.size() - reader.consumed(), " bytes more"));
  }
  return base::OkStatus();
}

}  // namespace

base::Status CheckBytes(std::string_view name, const Tensor& tensor) {
  const size_t element_size = ElementSize(tensor.type);
  STOKER_ASSIGN_OR_RETURN(const int64_t count, tensor.shape.ElementCount(element_size));
  if (tensor.type == DataType::kBytes) return CheckElements(name, tensor, count);
  const size_t wanted = static_cast<size_t>(count) * element_size;
  if (tensor.bytes.size() != wanted) {
    return base::InvalidArgument(StrCat("unexpected total byte size ", tensor.bytes.size(), " for input '",
                                        name, "', expecting ", wanted, " for shape ", tensor.shape.ToString(),
                                        " of ", ProtocolName(tensor.type)));
  }
  return base::OkStatus();
}

bool BytesReader::Next(std::string_view* element) {
  if (!ok_ || offset_ == data_.size()) return false;
  uint32_t length = 0;
  if (data_.size() - offset_ < sizeof(length)) return ok_ = false;
  std::memcpy(&length, data_.data() + offset_, sizeof(length));
  if (data_.size() - offset_ - sizeof(length) < length) return ok_ = false;
  *element = {reinterpret_cast<const char*>(data_.data()) + offset_ + sizeof(length), length};
  offset_ += sizeof(length) + length;
  return true;
}

void AppendBytesElement(std::string* out, std::string_view element) {
  const auto length = static_cast<uint32_t>(element.size());
  char prefix[sizeof(length)];
  std::memcpy(prefix, &length, sizeof(length));
  out->append(prefix, sizeof(prefix)).append(element);
}

}  // namespace stoker::tensor

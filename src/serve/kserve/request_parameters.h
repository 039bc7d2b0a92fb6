#pragma once

#include <string_view>

#include <stoker/base/status.h>
#include <stoker/host/request.h>

namespace stoker::serve {

/// Puts one request parameter where it belongs: a reserved one (sequence_id, sequence_start,
/// sequence_end, priority, timeout) into its field of `request`, any other among the parameters that
/// the model sees. Names that begin with "triton_" and wrong types are kInvalidArgument.
base::Status ApplyParameter(std::string_view name, host::ParameterValue value, host::InferRequest* request);

/// Whether the protocol gives that parameter a meaning of its own (those that ApplyParameter puts into
/// fields).
bool IsReservedParameter(std::string_view name);

/// Text id limit of the sequence extension.
inline constexpr size_t kCorrelationTextMax = 128;

}  // namespace stoker::serve

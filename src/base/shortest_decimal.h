#pragma once

#include <cstddef>

/// Floating-point values as text.
namespace stoker::base::internal {

/// Bytes that a Put function below may touch; what it writes is at most 25 of them.
inline constexpr size_t kNumberSize = 48;

/// Writes the shortest decimal that reads back equal (of several, the closest) and returns its end.
/// The form is that of Python's repr: 0.0001, 1e-05, 1.0, 1e+16; NaN, Infinity and -Infinity bare.
/// A float's text also survives being read as a double and narrowed, as JavaScript and Python do.
char* PutShortest(char* at, float value);
char* PutShortest(char* at, double value);

}  // namespace stoker::base::internal

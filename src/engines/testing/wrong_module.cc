// A module built for another version of the interface, for the test that it is refused unused.
#include <cstdint>

extern "C" {
__attribute__((visibility("default"))) uint64_t stoker_engine_abi() { return 1; }
__attribute__((visibility("default"))) void* stoker_engine_make() { __builtin_trap(); }
}

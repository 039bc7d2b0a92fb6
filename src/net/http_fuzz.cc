// The HTTP parser, differentially: bytes fed at once and bytes fed in pieces must give the same
// requests, bodies and faults, and every view must lie inside its request. The first bytes of the
// input choose the pieces.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <stoker/base/check.h>

#include "http_parser.h"

namespace {

using namespace stoker::net;            // NOLINT
using namespace stoker::net::internal;  // NOLINT

constexpr HttpLimits kLimits{
    .header_bytes_max = 300, .header_count_max = 6, .body_bytes_max = 100, .chunk_count_max = 5};

bool Inside(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// A reader of a byte stream that keeps what it does not understand yet, as a connection does.
class Reader {
 public:
  void Feed(std::string_view piece) {
    pending_ += piece;
    while (!stopped_ && Step()) continue;
  }
  const std::string& log() const { return log_; }

 private:
  bool Step() {
    if (in_chunks_) return StepChunks();
    if (pending_.empty()) return false;
    HttpFault fault;
    const auto outcome = scanner_.Scan(pending_, kLimits, &fault);
    if (outcome == HeadScanner::Outcome::kMore) return false;
    HttpHead head;
    const size_t skipped = scanner_.skipped();
    const size_t size = outcome == HeadScanner::Outcome::kComplete ? scanner_.head_size() : 0;
    const std::string_view block = std::string_view(pending_).substr(skipped, size - skipped);
    if (outcome == HeadScanner::Outcome::kComplete) fault = ParseHead(block, kLimits, &head);
    if (fault) return Stop(fault);
    CheckViews(block, &head);
    if (!head.chunked && pending_.size() < size + head.length) {
      scanner_.Reset();
      return false;  // scanned again when more is here
    }
    Log(head);
    scanner_.Reset();
    pending_.erase(0, size);
    if (head.chunked) {
      in_chunks_ = true;
      decoder_ = ChunkDecoder();
      return true;
    }
    log_ += "body " + pending_.substr(0, head.length) + "\n";
    pending_.erase(0, head.length);
    return true;
  }

  bool StepChunks() {
    std::string_view input = pending_;
    while (!input.empty() && !decoder_.done() && !decoder_.fault()) body_ += decoder_.Next(&input, kLimits);
    pending_.erase(0, pending_.size() - input.size());
    CHECK(body_.size() <= kLimits.body_bytes_max);
    if (decoder_.fault()) return Stop(decoder_.fault());
    if (!decoder_.done()) return false;
    log_ += "chunks " + body_ + "\n";
    body_.clear();
    in_chunks_ = false;
    return true;
  }

  bool Stop(const HttpFault& fault) {
    CHECK(fault.status >= 400 && fault.status < 600 && !fault.message.empty());
    log_ += "fault " + std::to_string(fault.status) + "\n";
    stopped_ = true;
    return false;
  }

  static void CheckViews(std::string_view block, HttpHead* head) {
    CHECK(block.size() <= kLimits.header_bytes_max && head->headers.size() <= kLimits.header_count_max);
    CHECK(!(head->chunked && head->has_length));
    const std::string copy(block);
    const HttpHead original = *head;
    head->Rebase(block.data(), copy.data());
    CHECK(head->target == original.target && head->path == original.path && head->query == original.query);
    CHECK(Inside(head->target, copy) && Inside(head->query, copy));
    for (size_t i = 0; i < head->headers.size(); ++i) {
      CHECK(Inside(head->headers[i].name, copy) && Inside(head->headers[i].value, copy));
      CHECK(head->headers[i].name == original.headers[i].name &&
            head->headers[i].value == original.headers[i].value);
    }
    *head = original;
  }

  void Log(const HttpHead& head) {
    log_ += std::to_string(static_cast<int>(head.method)) + " " + std::string(head.target) + " " +
            std::to_string(head.minor_version) + (head.keep_alive ? " keep" : " close") +
            (head.expect_continue ? " expect" : "") + "\n";
    for (const HttpHeader& header : head.headers)
      log_ += std::string(header.name) + "=" + std::string(header.value) + "\n";
  }

  std::string pending_;
  HeadScanner scanner_;
  ChunkDecoder decoder_;
  bool in_chunks_ = false;
  bool stopped_ = false;
  std::string body_;
  std::string log_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const uint8_t* pattern = data;
  const std::string_view input(reinterpret_cast<const char*>(data) + 4, size - 4);
  Reader whole;
  whole.Feed(input);
  Reader pieces;
  for (size_t at = 0, turn = 0; at < input.size(); ++turn) {
    const size_t length = 1 + pattern[turn % 4] % 40;
    pieces.Feed(input.substr(at, length));
    at += length;
  }
  CHECK(whole.log() == pieces.log());
  return 0;
}

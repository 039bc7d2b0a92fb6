#include <stoker/base/thread.h>

#include <pthread.h>

#include <utility>

namespace stoker::base {

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

Thread::Thread(const std::string& name, std::function<void()> body)
    : thread_([name, body = std::move(body)] {
        SetThreadName(name);
        body();
      }) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    Join();
    thread_ = std::move(other.thread_);
  }
  return *this;
}

void Thread::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace stoker::base

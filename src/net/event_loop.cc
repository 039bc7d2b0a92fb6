#include <stoker/net/event_loop.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <latch>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <stoker/base/clock.h>
#include <stoker/base/executor.h>
#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>

namespace stoker::net {
namespace {

constexpr int kEventsPerRound = 256;
constexpr int64_t kLongestWaitMs = 60'000;
constexpr uint64_t kWakeToken = ~0ull;

struct Watch {
  EventLoop::Handler handler;
  uint32_t generation = 0;
};

struct TimerEntry {
  int64_t due_ns;
  EventLoop::TimerId id;
  // Inverted, because the standard heap keeps its largest element in front.
  bool operator<(const TimerEntry& other) const {
    return std::tie(due_ns, id) > std::tie(other.due_ns, other.id);
  }
};

// The generation tells an event of a closed descriptor from one of its successor in the same round.
uint64_t Token(int fd, uint32_t generation) {
  return (static_cast<uint64_t>(generation) << 32) | static_cast<uint32_t>(fd);
}

}  // namespace

struct EventLoop::State {
  ~State() {
    if (epoll_fd >= 0) close(epoll_fd);
    if (wake_fd >= 0) close(wake_fd);
  }

  int index = 0;
  int epoll_fd = -1;
  int wake_fd = -1;
  std::atomic<bool> stopping{false};
  std::atomic<std::thread::id> thread;

  base::Mutex mutex;
  std::vector<Task> posted GUARDED_BY(mutex);
  bool asleep GUARDED_BY(mutex) = false;  // in epoll_wait, and nobody has woken it yet

  // Below: the loop's thread only.
  std::vector<std::unique_ptr<Watch>> watches;  // by descriptor
  std::vector<std::unique_ptr<Watch>> removed;  // kept until the round ends: one may be running
  uint32_t generation = 0;
  std::vector<TimerEntry> timer_heap;  // cancelled ones stay until they come up or are too many
  std::unordered_map<TimerId, Task> timers;
  TimerId last_timer = 0;
  std::vector<Task> round_end;
  std::vector<Task> running;
  int64_t now_ns = 0;

  void Wake();
  int WaitMs(int64_t clock_ns);
  void Dispatch(const epoll_event& event);
  void RunPosted();
  void RunTimers();
  void RunRoundEnd();
  void Round();
};

void EventLoop::State::Wake() {
  // Edge-triggered, so the counter is never read back; EAGAIN would mean 2^64 writes.
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd, &one, sizeof(one));
}

int EventLoop::State::WaitMs(int64_t clock_ns) {
  while (!timer_heap.empty() && !timers.contains(timer_heap.front().id)) {
    std::pop_heap(timer_heap.begin(), timer_heap.end());
    timer_heap.pop_back();
  }
  if (timer_heap.empty()) return kLongestWaitMs;
  const int64_t wait_ns = timer_heap.front().due_ns - clock_ns;
  if (wait_ns <= 0) return 0;
  return static_cast<int>(std::min((wait_ns + base::kNsPerMs - 1) / base::kNsPerMs, kLongestWaitMs));
}

void EventLoop::State::Dispatch(const epoll_event& event) {
  if (event.data.u64 == kWakeToken) return;
  const auto fd = static_cast<uint32_t>(event.data.u64);
  if (fd >= watches.size() || watches[fd] == nullptr) return;
  Watch& watch = *watches[fd];
  if (watch.generation != static_cast<uint32_t>(event.data.u64 >> 32)) return;
  watch.handler(event.events);
}

void EventLoop::State::RunPosted() {
  {
    base::MutexLock lock(&mutex);
    asleep = false;
    running.swap(posted);
  }
  for (Task& task : running) {
    task();
    task = nullptr;  // what a task holds is released in order too
  }
  running.clear();
}

void EventLoop::State::RunTimers() {
  while (!timer_heap.empty() && timer_heap.front().due_ns <= now_ns) {
    const TimerId id = timer_heap.front().id;
    std::pop_heap(timer_heap.begin(), timer_heap.end());
    timer_heap.pop_back();
    auto node = timers.extract(id);
    if (!node.empty()) node.mapped()();
  }
}

void EventLoop::State::RunRoundEnd() {
  for (size_t i = 0; i < round_end.size(); ++i) {  // a task may append another
    const Task task = std::move(round_end[i]);
    task();
  }
  round_end.clear();
  removed.clear();
}

void EventLoop::State::Round() {
  const int wait_ms = WaitMs(timers.empty() ? now_ns : base::Clock::Real().NowNs());
  bool work_waits = false;
  {
    base::MutexLock lock(&mutex);
    work_waits = !posted.empty();
    asleep = !work_waits;
  }
  epoll_event events[kEventsPerRound];
  const int count = epoll_wait(epoll_fd, events, kEventsPerRound, work_waits ? 0 : wait_ms);
  now_ns = base::Clock::Real().NowNs();
  for (int i = 0; i < count; ++i) Dispatch(events[i]);
  RunPosted();
  RunTimers();
  RunRoundEnd();
}

base::Result<std::unique_ptr<EventLoop>> EventLoop::Make(int index) {
  auto state = std::make_unique<State>();
  state->index = index;
  state->now_ns = base::Clock::Real().NowNs();
  state->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  state->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kWakeToken;
  if (state->epoll_fd < 0 || state->wake_fd < 0 ||
      epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, state->wake_fd, &event) != 0) {
    return base::Unavailable(base::StrCat("cannot make an event loop: ", std::strerror(errno),
                                          "; raise the limit of open files (ulimit -n)"));
  }
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(state)));
}

EventLoop::EventLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}

EventLoop::~EventLoop() {
  // What handlers and tasks hold may call back into this loop while it dies: from copies, so that
  // such a call finds containers that are whole.
  std::vector<Task> tasks;
  {
    base::MutexLock lock(&state_->mutex);
    tasks.swap(state_->posted);
  }
  tasks.clear();
  auto timers = std::exchange(state_->timers, {});
  timers.clear();
  auto watches = std::exchange(state_->watches, {});
  watches.clear();
}

void EventLoop::Run() {
  state_->thread = std::this_thread::get_id();
  while (!state_->stopping.load(std::memory_order_relaxed)) state_->Round();
  state_->thread = std::thread::id();
}

void EventLoop::Stop() {
  Post([this] { state_->stopping.store(true, std::memory_order_relaxed); });
}

void EventLoop::Post(Task task) {
  bool wake = false;
  {
    base::MutexLock lock(&state_->mutex);
    state_->posted.push_back(std::move(task));
    wake = std::exchange(state_->asleep, false);
  }
  if (wake) state_->Wake();
}

bool EventLoop::InLoopThread() const {
  return state_->thread.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

int EventLoop::index() const { return state_->index; }

base::Status EventLoop::Add(int fd, uint32_t events, Handler handler) {
  auto& watches = state_->watches;
  if (static_cast<size_t>(fd) >= watches.size()) watches.resize(std::max<size_t>(fd + 1, watches.size() * 2));
  CHECK(watches[fd] == nullptr);
  epoll_event event{};
  event.events = events;
  // Never the highest generation: with descriptor -1 it would be the wake token.
  const uint32_t generation = ++state_->generation & 0x7fffffff;
  event.data.u64 = Token(fd, generation);
  if (epoll_ctl(state_->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
    return base::Internal(base::StrCat("epoll cannot watch descriptor ", fd, ": ", std::strerror(errno)));
  }
  watches[fd] = std::make_unique<Watch>(Watch{std::move(handler), generation});
  return base::OkStatus();
}

base::Status EventLoop::Modify(int fd, uint32_t events) {
  CHECK(static_cast<size_t>(fd) < state_->watches.size() && state_->watches[fd] != nullptr);
  epoll_event event{};
  event.events = events;
  event.data.u64 = Token(fd, state_->watches[fd]->generation);
  if (epoll_ctl(state_->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0) {
    return base::Internal(base::StrCat("epoll cannot change descriptor ", fd, ": ", std::strerror(errno)));
  }
  return base::OkStatus();
}

void EventLoop::Remove(int fd) {
  auto& watches = state_->watches;
  if (static_cast<size_t>(fd) >= watches.size() || watches[fd] == nullptr) return;
  epoll_ctl(state_->epoll_fd, EPOLL_CTL_DEL, fd, nullptr);
  state_->removed.push_back(std::move(watches[fd]));
}

EventLoop::TimerId EventLoop::After(int64_t delay_ns, Task task) {
  const TimerId id = ++state_->last_timer;
  state_->timers.emplace(id, std::move(task));
  state_->timer_heap.push_back({base::Clock::Real().NowNs() + std::max<int64_t>(delay_ns, 0), id});
  std::push_heap(state_->timer_heap.begin(), state_->timer_heap.end());
  return id;
}

void EventLoop::CancelTimer(TimerId id) {
  auto node = state_->timers.extract(id);  // dies at the end of this function: its task may call back
  auto& heap = state_->timer_heap;
  if (heap.size() < 64 || heap.size() < 2 * state_->timers.size()) return;
  std::erase_if(heap, [&](const TimerEntry& entry) { return !state_->timers.contains(entry.id); });
  std::make_heap(heap.begin(), heap.end());
}

void EventLoop::AtRoundEnd(Task task) { state_->round_end.push_back(std::move(task)); }

int64_t EventLoop::now_ns() const { return state_->now_ns; }

struct EventLoops::Threads {
  explicit Threads(size_t count) : executor({.name = "io", .threads = count, .queue_limit = count}) {}
  base::Executor executor;
  base::Mutex mutex;
  bool stopped GUARDED_BY(mutex) = false;
};

EventLoops::EventLoops() = default;

base::Result<std::unique_ptr<EventLoops>> EventLoops::Start(size_t count) {
  std::unique_ptr<EventLoops> loops(new EventLoops());
  for (size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN_OR_RETURN(auto loop, EventLoop::Make(static_cast<int>(i)));
    loops->loops_.push_back(std::move(loop));
  }
  loops->threads_ = std::make_unique<Threads>(count);
  for (auto& loop : loops->loops_) {
    STOKER_RETURN_IF_ERROR(loops->threads_->executor.Submit([target = loop.get()] { target->Run(); }));
  }
  return loops;
}

EventLoops::~EventLoops() {
  if (threads_ != nullptr) Stop();
}

void EventLoops::RunOnAll(const std::function<void(EventLoop& loop)>& task) {
  base::MutexLock lock(&threads_->mutex);
  if (threads_->stopped) {
    for (auto& loop : loops_) task(*loop);
    return;
  }
  std::latch done(static_cast<ptrdiff_t>(loops_.size()));
  for (auto& loop : loops_) {
    loop->Post([&task, &done, target = loop.get()] {
      task(*target);
      done.count_down();
    });
  }
  done.wait();
}

void EventLoops::Stop() {
  base::MutexLock lock(&threads_->mutex);
  if (std::exchange(threads_->stopped, true)) return;
  for (auto& loop : loops_) loop->Stop();
  threads_->executor.Shutdown();
}

}  // namespace stoker::net

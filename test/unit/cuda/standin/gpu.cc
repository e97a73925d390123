#include "gpu.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "unseen.h"

namespace standin {
namespace {

using Lock = std::unique_lock<std::mutex>;

/// Takes the next task; null when the stream was destroyed and has done all.
std::unique_ptr<Stream::Task> take(Stream& stream) {
  const Unseen unseen;
  Lock lock(world().mutex);
  stream.busy = false;
  if (stream.queue.empty()) world().changed.notify_all();
  stream.came.wait(lock, [&] { return stream.destroyed || !stream.queue.empty(); });
  if (stream.queue.empty()) return nullptr;
  stream.busy = true;
  auto task = std::move(stream.queue.front());
  stream.queue.pop_front();
  return task;
}

bool is_well(const Stream& stream) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return stream.device->sticky == CUDA_SUCCESS;
}

void fail(Stream& stream, CUresult result) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  if (stream.device->sticky == CUDA_SUCCESS) stream.device->sticky = result;
  world().changed.notify_all();
}

EngineClocks::Slot reserve(const Stream& stream, const Stream::Task& task) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const auto engine = static_cast<std::size_t>(*task.engine);
  return world().clocks->reserve(stream.device->ordinal, *task.engine,
                                 world().machine.speed[engine], task.bytes);
}

[[noreturn]] void hang(Stream& stream) {
  {
    const Unseen unseen;
    const Lock lock(world().mutex);
    stream.hung = true;
    world().changed.notify_all();
  }
  standin::hang();
}

/// Does the work while its engine is taken for it.
CUresult perform(Stream& stream, const Stream::Task& task) {
  if (task.fault && task.fault->kind == Fault::Kind::hang) hang(stream);
  if (task.fault) return static_cast<CUresult>(task.fault->error);
  if (!task.engine) return task.work();
  const auto slot = reserve(stream, task);
  sleep_until(slot.begin);
  const CUresult result = task.work();
  sleep_until(slot.end);
  return result;
}

void run(Stream& stream) {
  ::prctl(PR_SET_NAME, "standin-stream");
  while (auto task = take(stream)) {
    observe(task.get());
    // A device that has failed does no more work, and lets events pass so that nobody hangs.
    if (!is_well(stream) && task->engine) continue;
    const CUresult result = perform(stream, *task);
    if (result != CUDA_SUCCESS) fail(stream, result);
    publish(&stream.done);
  }
}

}  // namespace

World& world() {
  static auto* const only = new World;
  return *only;
}

void configure(const std::string& machine, const std::string& faults) {
  World& w = world();
  const Lock lock(w.mutex);
  w.machine = read_machine(machine);
  w.faults = Faults(faults);
  w.clocks = std::make_unique<EngineClocks>(w.machine.shared);
  for (auto& device : w.devices) device->sticky = CUDA_SUCCESS;
  while (w.devices.size() < static_cast<std::size_t>(w.machine.devices)) {
    w.devices.push_back(std::make_unique<Device>());
    w.devices.back()->ordinal = static_cast<int>(w.devices.size()) - 1;
  }
  w.initialised = false;
}

Stream* make_stream(Device& device) {
  auto made = std::make_unique<Stream>();
  Stream* const stream = made.get();
  stream->device = &device;
  stream->end.device = &device;
  world().streams[reinterpret_cast<CUstream>(stream)] = std::move(made);
  std::thread([stream] { run(*stream); }).detach();
  return stream;
}

void enqueue(Stream& stream, std::unique_ptr<Stream::Task> task) {
  publish(task.get());
  const Unseen unseen;
  const Lock lock(world().mutex);
  stream.queue.push_back(std::move(task));
  stream.came.notify_one();
}

std::uint64_t record(Stream& stream, Event& event) {
  std::uint64_t number = 0;
  void* address = nullptr;
  {
    const Unseen unseen;
    const Lock lock(world().mutex);
    address = &event.records.emplace_back();
    number = event.records.size();
  }
  auto task = std::make_unique<Stream::Task>();
  task->work = [&event, number, address] {
    publish(address);
    const Unseen unseen;
    const Lock lock(world().mutex);
    event.passed = std::max(event.passed, number);
    world().changed.notify_all();
    return CUDA_SUCCESS;
  };
  enqueue(stream, std::move(task));
  return number;
}

std::uint64_t last_record(const Event& event) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return event.records.size();
}

void wait_until_passed(Event& event, std::uint64_t record) {
  const Unseen unseen;
  Lock lock(world().mutex);
  world().changed.wait(
      lock, [&] { return event.passed >= record || event.device->sticky != CUDA_SUCCESS; });
}

void observe_record(Event& event, std::uint64_t record) {
  if (record == 0) return;
  void* address = nullptr;
  {
    const Unseen unseen;
    const Lock lock(world().mutex);
    address = &event.records[record - 1];
  }
  observe(address);
}

CUresult finish(Stream& stream) {
  const std::uint64_t end = record(stream, stream.end);
  wait_until_passed(stream.end, end);
  observe_record(stream.end, end);
  const Unseen unseen;
  const Lock lock(world().mutex);
  return stream.device->sticky;
}

void drain(const Device& device) {
  std::vector<Stream*> streams;
  {
    const Unseen unseen;
    Lock lock(world().mutex);
    for (const auto& [handle, stream] : world().streams) {
      if (stream->device == &device) streams.push_back(stream.get());
    }
    const auto is_idle = [](const Stream* stream) {
      return stream->hung || (stream->queue.empty() && !stream->busy);
    };
    world().changed.wait(lock, [&] { return std::ranges::all_of(streams, is_idle); });
  }
  for (Stream* const stream : streams) observe(&stream->done);
}

const Block* find_block(const void* address, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  auto after = world().memory.upper_bound(first);
  if (after == world().memory.begin()) return nullptr;
  const auto& [begin, block] = *--after;
  return first + bytes <= begin + block.bytes ? &block : nullptr;
}

void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace standin

#pragma once
#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engines.h"
#include "settings.h"

/// The stand-in's GPUs: host memory as "device memory", and a thread for each stream. Everything
/// here is used in an `Unseen` scope and, except for constants, with `World::mutex`. Only device
/// memory is ever freed. A handle stays what it was, so that its use after its end is noticed.
namespace standin {

struct Device;

/// An event, and which of its records its stream has passed.
struct Event {
  Device* device = nullptr;
  /// The address of each record, for `publish` and `observe`. A wait is for one record, and learns
  /// nothing of later ones.
  std::deque<char> records;
  std::uint64_t passed = 0;  ///< how many of them
  bool destroyed = false;
};

/// A thread that does its tasks in order.
struct Stream {
  /// The work reports an error of the device, or 0.
  using Work = std::function<CUresult()>;
  struct Task {
    Work work;
    std::optional<Engine> engine;
    std::size_t bytes = 0;
    std::optional<Fault> fault;
  };
  Device* device = nullptr;
  std::deque<std::unique_ptr<Task>> queue;
  std::condition_variable came;  ///< a task has come to the queue, or the stream was destroyed
  Event end;                     ///< what a synchronisation records
  char done = 0;                 ///< for `publish`, after each task
  bool busy = false;             ///< with a task that is no longer in the queue
  bool hung = false;
  bool capturing = false;
  bool destroyed = false;
};

struct Device {
  int ordinal = 0;
  int retained = 0;
  CUresult sticky = CUDA_SUCCESS;
  Stream* legacy = nullptr;  ///< stream 0, once it is used
};

/// A piece of memory that CUDA knows.
struct Block {
  enum class Kind { device, pinned, registered, managed };
  std::size_t bytes = 0;
  Kind kind = Kind::device;
  Device* device = nullptr;
};

struct World {
  std::mutex mutex;
  /// An event has passed, a stream has nothing more to do, or a device has failed.
  std::condition_variable changed;
  Machine machine;
  Faults faults{""};
  std::unique_ptr<EngineClocks> clocks;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<std::uintptr_t, Block> memory;  ///< by its first address
  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUevent, std::unique_ptr<Event>> events;
  int captures = 0;  ///< streams that are being captured
  bool capture_broken = false;
  bool initialised = false;
};

/// Never destroyed: streams run until the process ends.
World& world();

/// Plays another machine with other faults; the devices forget their errors.
void configure(const std::string& machine, const std::string& faults);

/// Call this with the mutex held.
Stream* make_stream(Device& device);

// These make their own `Unseen` scopes; call them outside of one, and without the mutex.

/// Gives the stream a task; publishes to it what the caller has done.
void enqueue(Stream& stream, std::unique_ptr<Stream::Task> task);
/// Records the event behind all work. Returns the record's number.
std::uint64_t record(Stream& stream, Event& event);
/// The number of the event's last record; 0: none.
std::uint64_t last_record(const Event& event);
/// Blocks until the record is passed, or the device has failed.
void wait_until_passed(Event& event, std::uint64_t record);
void observe_record(Event& event, std::uint64_t record);
/// Waits for all of the stream's work and observes it. Returns the device's error.
CUresult finish(Stream& stream);
/// Waits for all work of the device that does not hang, and observes it.
void drain(const Device& device);

/// Call this with the mutex held. Returns the block that holds all of [address, address + bytes),
/// or null.
const Block* find_block(const void* address, std::size_t bytes);

/// Blocks for ever.
[[noreturn]] void hang();

}  // namespace standin

// lib/mpi in a build without MPI. No communicator can be created, so its methods are never called.
#include "base/failure.h"
#include "mpi/communicator.h"
#include "mpi/library.h"
#include "tutti/error.h"

namespace tutti::mpi {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported,
              "this tutti was built without MPI (meson option mpi); dist_sync_mpi needs it");
}

}  // namespace

struct Communicator::Handle {};
struct Requests::State {};

void start(const StartSettings&) {
  refuse();
}
void in_turn(const std::vector<int>&, std::chrono::milliseconds,
             const std::function<void()>& create) {
  create();
}
bool is_initialised() {
  return false;
}
int world_rank() {
  return 0;
}
int world_size() {
  return 1;
}
bool is_multithreaded() {
  return false;
}
void check_world_size() {}
void check_thread_level(int, bool) {}
void abandon(bool) {}
std::optional<Launched> launched() {
  return std::nullopt;
}
// NOLINTNEXTLINE(performance-unnecessary-value-param): the other build keeps it.
StopHook::StopHook(std::function<void()>, std::string) {}
StopHook::~StopHook() = default;
std::string compiled_library() {
  return "none";
}
std::string loaded_library() {
  return "none";
}
bool is_cuda_aware() {
  return false;
}
std::string thread_level() {
  return "none";
}

Communicator::Communicator(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Communicator Communicator::world(std::chrono::milliseconds, const Look&) {
  refuse();
}
Communicator Communicator::group(const std::vector<int>&, std::chrono::milliseconds, const Look&) {
  refuse();
}
Communicator Communicator::duplicate(std::chrono::milliseconds, const Look&) const {
  refuse();
}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
int Communicator::rank() const {
  return 0;
}
int Communicator::size() const {
  return 1;
}
std::vector<std::string> Communicator::all_gather(const std::string&, std::chrono::milliseconds,
                                                  const std::string&, const Look&,
                                                  const Step&) const {
  refuse();
}
bool Communicator::may_use_any_thread() const {
  return true;
}

void Communicator::progress() const {}
void Communicator::tell_others(const std::string&) const {}
std::optional<std::string> Communicator::receive_last_words() const {
  return std::nullopt;
}
void Communicator::hold(std::shared_ptr<const void>) {}
void Communicator::abandon() {}

Requests::Requests(const Communicator&) {
  refuse();
}
Requests::~Requests() = default;
Requests::Requests(Requests&&) noexcept = default;
void Requests::hold(std::shared_ptr<const void>) {
  refuse();
}
Requests::Id Requests::send(int, int, std::span<const std::byte>) {
  refuse();
}
Requests::Id Requests::receive(int, int, std::span<std::byte>) {
  refuse();
}
bool Requests::progress() {
  return false;
}
bool Requests::take_finished(Id) {
  return true;
}
bool Requests::empty() const {
  return true;
}
std::string Requests::describe() const {
  return "no transfer";
}

}  // namespace tutti::mpi

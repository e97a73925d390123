#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ps/link/job.h"
#include "tutti/server.h"
#include "tutti/tutti.h"

namespace tutti {

/// A parameter-server job whose processes are threads of this one. The workers' environment is this
/// process's.
class LocalJob {
 public:
  struct Size {
    int workers = 2;
    int servers = 2;
    std::uint64_t big_count = 1'000'000;
    std::chrono::milliseconds create_timeout{10'000};   ///< of the scheduler
    std::chrono::milliseconds key_timeout{60'000};      ///< of the scheduler
    std::chrono::milliseconds heartbeat_timeout{5000};  ///< of scheduler and servers
    int played = 0;                                     ///< servers that the test itself plays
    bool encrypts = false;                              ///< of scheduler and servers
    bool resends = false;                               ///< as PS_RESEND=1
    std::uint64_t most_waiting_bytes = ps::Job{}.most_waiting_bytes;        ///< of servers
    std::uint64_t most_waiting_requests = ps::Job{}.most_waiting_requests;  ///< of servers
    Durability durability{};                                                ///< of servers
  };
  explicit LocalJob(const Size& size);
  /// Waits for scheduler and servers, which end when the workers have.
  ~LocalJob();
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  const ps::Job& job() const { return job_; }
  /// The options of all threads here.
  static Options options();

  /// Each worker's thread returns a text, by rank: the result of `work`, or its error as "code:
  /// text".
  using Work = std::function<std::string(KVStore&)>;
  std::vector<std::string> run(const Work& work, const std::string& type = "dist_sync",
                               const Options& of_workers = options()) const;
  /// Runs one worker, and returns its text as above. For workers that do different things.
  static std::string run_one(const Work& work, const std::string& type = "dist_sync",
                             const Options& of_worker = options());

  /// The texts with which scheduler and servers ended, once they have ended. "" means a good end.
  const std::vector<std::string>& ends();

 private:
  void start(std::size_t at, std::function<std::string()> role);
  void join();

  ps::Job job_;
  std::vector<std::string> ends_;
  std::vector<std::thread> threads_;
};

/// "1 2 3".
std::string text_of(const std::vector<float>& values);

/// A one-dimensional f32 tensor over the values.
inline Tensor tensor(std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32};
}

}  // namespace tutti

#pragma once
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/reception.h"
#include "ps/channel.h"
#include "ps/image.h"
#include "ps/scheduler_link.h"
#include "ps/stock.h"
#include "ps/storage.h"
#include "ps/termination.h"

namespace tutti::ps {

/// The process that keeps values: server.cc is its loop, server_beginning.cc how it begins, perhaps
/// from a state that an earlier process left.
class Server {
 public:
  /// Blocks until all of the job are there. Throws what keeps it from that.
  Server(const Job& job, const Options& options, const Durability& durability);

  /// Until the job is over.
  void run();
  /// Tells the others why, and leaves the state as it is.
  void stop(const std::string& reason) noexcept;

 private:
  base::Fd listen() const;
  Register registration() const;
  std::string describe() const { return fmt::format("server {}", welcome_.rank); }
  net::Reception::Audience audience();
  bool is_durable() const { return storage_ && storage_->is_durable(); }
  StateHead head() const;
  net::Bytes state() const;

  void begin();
  void go_on_from(Image& earlier);
  void use(Image& image);
  Located locate(const Locate& question);

  base::Clock::time_point wake_up_by() const;
  void store();
  void flush();
  void on_event(std::uint64_t token);
  void hear_scheduler(const FromScheduler& message);
  void lose_worker(const Lost& lost);
  void note(const Event& event);
  void welcome();
  void hear(std::size_t worker);

  const Job& job_;
  net::Poller poller_;
  std::unique_ptr<Storage> storage_;  ///< null: nothing is kept
  std::unique_ptr<Image> earlier_;    ///< until this one has begun
  std::unique_ptr<Stock> stock_;      ///< of another job; until then, too
  SchedulerLink scheduler_;
  base::Fd listener_;
  const Welcome welcome_;
  net::Reception reception_;
  Termination termination_;
  std::vector<std::unique_ptr<Channel>> channels_;  ///< by worker
  std::unique_ptr<Table> table_;
  std::optional<Located> located_;
  bool over_ = false;
};

}  // namespace tutti::ps

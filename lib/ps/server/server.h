#pragma once
#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "net/reception.h"
#include "net/refusals.h"
#include "ps/durable/storage.h"
#include "ps/link/connection_to_worker.h"
#include "ps/link/scheduler_link.h"
#include "ps/server/image.h"
#include "ps/server/server_post.h"
#include "ps/server/stock.h"

namespace tutti::ps {

/// The process that keeps the values of one store. server.cc is its loop. server_beginning.cc is
/// how it begins, perhaps from a state that an earlier process left.
class Server {
 public:
  /// Blocks until all processes of the job are there. Throws the error that prevents that. `run`
  /// serves the requests.
  Server(const Job& job, const Options& options, const Durability& durability, ServerPost& post);

  /// Serves requests until the store is over.
  void run();
  /// Tells the others why it ends, unless the store is over. Then its state is on disk.
  void end(const std::optional<std::string>& reason);
  /// The number of keys that have values here.
  std::size_t keys() const { return table_ ? table_->keys() : 0; }
  /// Tells the others why it ends, and does no more.
  void leave(const std::optional<std::string>& reason) noexcept;

 private:
  std::string own_address(const std::string& interface) const;
  base::Fd listen() const;
  base::Fd listen_nearby() const;
  net::Identity identity(const Options& options) const;
  Register registration() const;
  std::string describe() const { return fmt::format("server {}", welcome_.rank); }
  net::Reception::Audience audience();
  bool keeps() const { return is_durable() || job_.resend_after.has_value(); }
  bool is_durable() const { return storage_ && storage_->is_durable(); }
  StateHead head() const;
  net::Bytes state() const;

  void begin();
  std::optional<Image> settled();
  void begin_with(std::optional<Image> earlier);
  void go_on_from(Image& earlier);
  void use(Image& image);
  Located locate(const Locate& question);
  void keep_beginning();
  void hear_scheduler_until(const std::function<bool()>& is_done,
                            const std::function<void(const FromScheduler&)>& take);

  void say_why(const std::optional<std::string>& reason) noexcept;
  base::Fd start_last_state();
  void take_leaves();
  void wait_until_replaced(const base::Fd& writer, bool hears_scheduler);

  base::Clock::time_point wake_up_by() const;
  void store();
  void flush();
  void set_reading(int rank);
  void hear_others();
  void hear_scheduler(const FromScheduler& message);
  void lose_worker(const Lost& lost);
  void note(const JournalRecord& event);
  void welcome(net::Reception& reception);
  void hear(std::size_t rank);

  const Job& job_;
  net::Poller poller_;
  std::unique_ptr<Storage> storage_;  ///< null: nothing is kept
  std::vector<Image> brought_;        ///< the older first; until this one has begun
  std::unique_ptr<Stock> stock_;      ///< values of another job, until the server has begun
  ServerPost& post_;
  SchedulerLink& scheduler_;
  const std::string address_;
  // Both listen before any worker knows of this server.
  base::Fd listener_;
  base::Fd near_listener_;
  const Welcome welcome_;
  net::Reception reception_;
  net::Reception near_reception_;  ///< of the workers of this machine
  std::vector<std::unique_ptr<ConnectionToWorker>> workers_;
  std::set<int> told_ahead_;  ///< workers of which it has been logged that they are far ahead
  /// By worker: the server reads it up to this request in any case.
  std::map<int, std::uint64_t> read_on_;
  std::map<std::size_t, net::Refusals> refusals_;  ///< by worker
  std::unique_ptr<Table> table_;
  std::optional<Located> located_;
  bool told_to_begin_ = false;  ///< all servers are ready
  bool has_begun_ = false;      ///< the state that it keeps belongs to this job
  bool over_ = false;
  bool has_lost_ = false;  ///< a node of the job
};

}  // namespace tutti::ps

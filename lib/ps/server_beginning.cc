// How a server begins: empty, from the state of an earlier job, or in the middle of this one.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "net/sockets.h"
#include "ps/server.h"
#include "ps/server_tokens.h"
#include "ps/wire.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

std::unique_ptr<Storage> storage_for(const Job& job, const Durability& durability) {
  if (durability.folder.empty()) return nullptr;
  if (job.wanted_rank >= 0 && job.wanted_rank < job.company.servers) {
    return std::make_unique<Storage>(durability, job.wanted_rank, job.company.servers);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a server that keeps a state (--state) needs its rank, so that it finds "
                          "that again: set DMLC_RANK to a number from 0 to {}, another for each",
                          job.company.servers - 1));
}

/// What there is of an earlier process; null: nothing.
std::unique_ptr<Image> image_in(const Storage* storage) {
  if (storage == nullptr || !storage->files().has_state()) return nullptr;
  return std::make_unique<Image>(Image::read(storage->files()));
}

/// What another job has left, unless this one has begun before.
std::unique_ptr<Stock> stock_in(const std::string& folder, const Image* earlier) {
  if (folder.empty() || earlier != nullptr) return nullptr;
  return std::make_unique<Stock>(Stock::read(folder));
}

/// What an earlier job has left, but for keys that are dropped.
std::vector<Table::Content> contents_without(const std::vector<Key>& dropped, const Table& table) {
  const std::set<Key> unwanted(dropped.begin(), dropped.end());
  std::vector<Table::Content> contents = table.contents();
  std::set<Key> found;
  std::erase_if(contents, [&](const Table::Content& one) {
    const bool is_unwanted = unwanted.contains(one.name.key);
    if (is_unwanted) found.insert(one.name.key);
    return is_unwanted;
  });
  std::ranges::for_each(found, warn_incomplete);
  return contents;
}

}  // namespace

Server::Server(const Job& job, const Options& options, const Durability& durability)
    : job_(job),
      storage_(storage_for(job, durability)),
      earlier_(image_in(storage_.get())),
      stock_(stock_in(durability.restore, earlier_.get())),
      scheduler_(job, options, poller_, scheduler_token),
      listener_(listen()),
      near_listener_(listen_nearby()),
      welcome_(scheduler_.join(registration())),
      reception_(listener_, identity(options), audience()),
      near_reception_(near_listener_, identity(options), audience()) {
  base::set_log_rank(welcome_.rank);
  const auto terms = Channel::Terms::of(job, is_durable());
  for (int worker = 0; worker < job.company.workers; ++worker) {
    workers_.push_back(std::make_unique<WorkerEnd>(
        poller_, static_cast<std::uint64_t>(worker),
        Channel::Ends{describe(), fmt::format("worker {}", worker)}, terms));
  }
  poller_.add(termination_.descriptor(), signal_token);
  begin();
  poller_.add(reception_.descriptor(), reception_token);
  poller_.add(near_reception_.descriptor(), near_reception_token);
}

std::string Server::address() const {
  return job_.node_host.empty() ? scheduler_.local_address() : job_.node_host;
}

base::Fd Server::listen() const {
  check_may_use(job_, address());
  return net::listen_tcp(address());
}

base::Fd Server::listen_nearby() const {
  return net::listen_nearby(job_.nearby_name(address(), net::port_of(listener_)));
}

net::Identity Server::identity(const Options& options) const {
  return {.rank = welcome_.rank,
          .secret = job_.secret,
          .purpose = server_purpose(welcome_.job),
          .name = describe(),
          .encrypts = options.encrypt};
}

Register Server::registration() const {
  Register said{.role = Role::server,
                .rank = job_.wanted_rank,
                .workers = job_.company.workers,
                .servers = job_.company.servers,
                .version = version(),
                .address = address(),
                .port = net::port_of(listener_),
                .durable = is_durable(),
                .keeps = keeps()};
  if (earlier_) said.job = earlier_->head.job;
  if (storage_) said.job = storage_->claimed_job().value_or(said.job);
  if (!earlier_) return said;
  for (const Table::Content& one : earlier_->table->contents()) {
    const Tensor& elements = one.content.elements;
    said.held.push_back({one.name, elements.count(), elements.dtype()});
  }
  return said;
}

StateHead Server::head() const {
  return {.job = welcome_.job,
          .rank = welcome_.rank,
          .servers = job_.company.servers,
          .workers = job_.company.workers,
          .asynchronous = welcome_.asynchronous,
          .staleness = welcome_.staleness};
}

net::Bytes Server::state() const {
  std::vector<const Delivery*> deliveries;
  for (const auto& worker : workers_) deliveries.push_back(&worker->delivery());
  return image_bytes(head(), *table_, deliveries);
}

void Server::begin() {
  if (storage_ && welcome_.rank != job_.wanted_rank) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("this server keeps the state of rank {}, which another process has; "
                            "give each server its own DMLC_RANK",
                            job_.wanted_rank));
  }
  if (is_durable()) storage_->claim(welcome_.job);
  if (earlier_ && earlier_->head.job == welcome_.job) {
    go_on_from(*earlier_);
  } else {
    Image fresh(head());
    use(fresh);
    if (earlier_) {
      const Table& table = *earlier_->table;
      table_->inherit(table.optimizer(), contents_without(welcome_.dropped, table));
    }
    if (stock_) {
      const Located located = locate(stock_->question());
      table_->inherit(stock_->optimizer(), stock_->pieces_on(welcome_.rank, located));
    }
  }
  earlier_.reset();
  stock_.reset();
  if (storage_) keep_beginning();
}

/// A large state takes its time, in which the scheduler hears of this server, and workers wait.
void Server::keep_beginning() {
  const base::Fd writer = storage_->replace([this] { return state(); });
  poller_.add(writer, writer_token);
  // What is heard meanwhile is for the journal.
  std::vector<FromScheduler> heard;
  hear_scheduler_until([this] { return storage_->has_replaced(); },
                       [&](const FromScheduler& message) { heard.push_back(message); });
  poller_.remove(writer);
  for (const FromScheduler& message : heard) hear_scheduler(message);
}

/// In the middle of the job: workers hear what they had not heard.
void Server::go_on_from(Image& earlier) {
  use(earlier);
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    workers_[worker]->delivery().restore(earlier.deliveries.at(worker).save());
  }
  base::log().warn("{} goes on from its state", describe());
}

void Server::use(Image& image) {
  *image.send = [this](int worker, const Answer& answer) {
    workers_[static_cast<std::size_t>(worker)]->send(answer);
  };
  table_ = std::move(image.table);
}

Located Server::locate(const Locate& question) {
  scheduler_.send(question);
  hear_scheduler_until([this] { return located_.has_value(); },
                       [this](const FromScheduler& message) { hear_scheduler(message); });
  return *std::move(located_);
}

void Server::hear_scheduler_until(const std::function<bool()>& is_done,
                                  const std::function<void(const FromScheduler&)>& take) {
  while (!is_done()) {
    scheduler_.flush();
    poller_.wait(wake_up_by());
    check_terminated();
    scheduler_.receive(take);
    scheduler_.beat();
  }
}

}  // namespace tutti::ps

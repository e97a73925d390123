// In this file a server begins, together with all others: with nothing, with the state of an
// earlier job, or in the middle of this one.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "net/interfaces.h"
#include "net/sockets.h"
#include "ps/link/address_choice.h"
#include "ps/protocol/wire.h"
#include "ps/server/server.h"
#include "ps/server/server_tokens.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

std::unique_ptr<Storage> storage_for(const Job& job, const Durability& durability) {
  if (durability.folder.empty()) return nullptr;
  if (job.wanted_rank >= 0 && job.wanted_rank < job.size.servers) {
    return std::make_unique<Storage>(durability, job.wanted_rank, job.size.servers);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a server that keeps a state (--state) finds it again by its rank: set "
                          "DMLC_RANK to a number from 0 to {}, another one for each server",
                          job.size.servers - 1));
}

/// The states that earlier processes have left. If a process was started again, it may have
/// prepared the state of a job whose older state is there, too. Such a prepared state adds nothing.
std::vector<Image> images_in(const Storage* storage) {
  std::vector<Image> images;
  if (storage == nullptr) return images;
  const StateFiles& files = storage->files();
  if (files.has_state()) images.push_back(Image::read(files));
  if (!files.has_prepared()) return images;
  Image prepared = Image::read_prepared(files);
  const bool is_new = images.empty() || images.front().head.job != prepared.head.job;
  if (is_new) images.push_back(std::move(prepared));
  return images;
}

bool has_state(const Storage* storage) {
  return storage != nullptr && storage->files().has_state();
}

/// The state of another job, for a server that has no state of its own.
std::unique_ptr<Stock> stock_in(const std::string& folder, const Storage* storage) {
  if (folder.empty() || has_state(storage)) return nullptr;
  return std::make_unique<Stock>(Stock::read(folder));
}

Brought brought(const Image& image) {
  Brought what{.job = image.head.job};
  if (const auto moment = image.moment()) what.moments.push_back(*moment);
  for (const Table::PieceContent& one : image.table->contents()) {
    const Tensor& elements = one.content.elements;
    what.held.push_back({one.name, elements.count(), elements.dtype()});
  }
  return what;
}

/// The values of an earlier job, without the keys that are dropped.
std::vector<Table::PieceContent> contents_without(const std::vector<Key>& dropped,
                                                  const Table& table) {
  const std::set<Key> unwanted(dropped.begin(), dropped.end());
  std::vector<Table::PieceContent> contents = table.contents();
  std::set<Key> found;
  std::erase_if(contents, [&](const Table::PieceContent& one) {
    const bool is_unwanted = unwanted.contains(one.name.key);
    if (is_unwanted) found.insert(one.name.key);
    return is_unwanted;
  });
  std::ranges::for_each(found, warn_incomplete);
  return contents;
}

}  // namespace

Server::Server(const Job& job, const Options& options, const Durability& durability,
               ServerPost& post)
    : job_(job),
      storage_(storage_for(job, durability)),
      brought_(images_in(storage_.get())),
      stock_(stock_in(durability.restore, storage_.get())),
      post_(post),
      scheduler_(post.link()),
      address_(own_address(options.interface)),
      listener_(listen()),
      near_listener_(listen_nearby()),
      welcome_(scheduler_.join(registration(), [&post] { post.check_terminated(); })),
      reception_(listener_, identity(options), audience()),
      near_reception_(near_listener_, identity(options), audience()) {
  scheduler_.beat_here();
  post.watch_termination();
  poller_.add(post.descriptor(), scheduler_token);
  base::set_log_rank(welcome_.rank);
  const auto terms = Channel::Terms::of(job, is_durable());
  for (int worker = 0; worker < job.size.workers; ++worker) {
    workers_.push_back(std::make_unique<ConnectionToWorker>(
        poller_, static_cast<std::uint64_t>(worker),
        Channel::Ends{describe(), fmt::format("worker {}", worker)}, terms));
  }
}

/// Workers are told a numeric address, because their hosts may not know the server's name.
std::string Server::own_address(const std::string& interface) const {
  if (job_.node_host.empty()) {
    return server_address(job_.root, scheduler_.local_address(),
                          net::reachable_addresses(interface), job_.has_secret);
  }
  try {
    return net::resolve(job_.node_host).front();
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("environment variable DMLC_NODE_HOST={} is not usable; it takes an "
                            "address or a name of this host: {}",
                            base::quoted(job_.node_host), error.what()));
  }
}

base::Fd Server::listen() const {
  check_may_use(job_, address_);
  return net::listen_tcp(address_);
}

base::Fd Server::listen_nearby() const {
  return net::listen_nearby(job_.nearby_name(address_, net::port_of(listener_)));
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
                .workers = job_.size.workers,
                .servers = job_.size.servers,
                .version = version(),
                .address = address_,
                .port = net::port_of(listener_),
                .durable = is_durable(),
                .keeps = keeps()};
  if (!has_state(storage_.get())) {
    said.brings.push_back({.moments = stock_ ? stock_->moments() : std::vector<Moment>()});
  }
  for (const Image& image : brought_) said.brings.push_back(brought(image));
  return said;
}

StateHead Server::head() const {
  return {.job = welcome_.job,
          .rank = welcome_.rank,
          .servers = job_.size.servers,
          .workers = job_.size.workers,
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
                fmt::format("this server keeps the state of rank {}, but another process has "
                            "that rank; give each server its own DMLC_RANK",
                            job_.wanted_rank));
  }
  begin_with(settled());
  stock_.reset();
  if (storage_) {
    keep_beginning();
  } else {
    scheduler_.send(Ready{});
  }
  poller_.add(reception_.descriptor(), reception_token);
  poller_.add(near_reception_.descriptor(), near_reception_token);
}

/// The state with which all servers begin, if there is one. After this it is the only one on the
/// disk.
std::optional<Image> Server::settled() {
  std::optional<Image> earlier;
  bool is_prepared = false;
  for (Image& image : brought_) {
    if (image.head.job != welcome_.begins_with) continue;
    is_prepared = !has_state(storage_.get()) || &image != &brought_.front();
    earlier = std::move(image);
  }
  brought_.clear();
  if (storage_) storage_->settle(is_prepared);
  return earlier;
}

void Server::begin_with(std::optional<Image> earlier) {
  if (earlier && earlier->head.job == welcome_.job) return go_on_from(*earlier);
  Image fresh(head());
  use(fresh);
  if (earlier) {
    const Table& table = *earlier->table;
    table_->inherit(table.optimizer(), contents_without(welcome_.dropped, table));
  } else if (stock_) {
    const Located located = locate(stock_->question());
    table_->inherit(stock_->optimizer(), stock_->pieces_on(welcome_.rank, located));
  }
}

/// It takes time to write a large state. Meanwhile the server sends heartbeats to the scheduler,
/// and workers wait.
void Server::keep_beginning() {
  const base::Fd writer = storage_->prepare([this] { return state(); });
  poller_.add(writer, writer_token);
  // Workers may be lost meanwhile. These losses go to the journal later.
  std::vector<FromScheduler> heard;
  const auto take = [&](const FromScheduler& message) {
    const auto* const lost = std::get_if<Lost>(&message);
    if (lost != nullptr && lost->role == Role::worker) return heard.push_back(message);
    hear_scheduler(message);
  };
  hear_scheduler_until([this] { return over_ || storage_->has_prepared(); }, take);
  poller_.remove(writer);
  scheduler_.send(Ready{});
  hear_scheduler_until([this] { return over_ || told_to_begin_; }, take);
  if (over_) return;
  storage_->begin(welcome_.job);
  has_begun_ = true;
  for (const FromScheduler& message : heard) hear_scheduler(message);
}

/// Goes on in the middle of the job. Workers get the messages that they have not received.
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
  hear_scheduler_until([this] { return over_ || located_.has_value(); },
                       [this](const FromScheduler& message) { hear_scheduler(message); });
  if (!located_) throw Error(ErrorCode::aborted, "the job was over before it had begun");
  for (const Placement& one : located_->placements) check_servers(one, job_.size.servers);
  return *std::move(located_);
}

void Server::hear_scheduler_until(const std::function<bool()>& is_done,
                                  const std::function<void(const FromScheduler&)>& take) {
  while (!is_done()) {
    scheduler_.flush();
    poller_.wait(wake_up_by());
    post_.check_terminated();
    scheduler_.receive(take);
    scheduler_.beat();
  }
}

}  // namespace tutti::ps

#include "unit/ps/worker/lateness.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "ps/protocol/rows.h"
#include "ps/protocol/states.h"
#include "ps/protocol/wire.h"
#include "tutti/shard.h"
#include "unit/errors.h"

namespace tutti::ps::lateness {
namespace {

using namespace std::chrono_literals;

Key name_of(std::size_t key) {
  return Key(static_cast<std::int64_t>(key));
}
std::uint32_t pieces_of(std::size_t key) {
  return static_cast<std::uint32_t>(key) + 1;
}
Shape shape_of(std::size_t key) {
  return {static_cast<std::int64_t>(2 * pieces_of(key))};
}

/// Without momentum the order of asynchronous pushes changes nothing.
Optimizer optimizer_of(const Made& made, bool asynchronous) {
  return {"sgd", {{"learning_rate", double{made.base}}, {"momentum", asynchronous ? 0.0 : 0.5}}};
}

/// None of them changes a small whole number.
Compression compression_of(const Made& made) {
  constexpr std::array encodings{Encoding::none, Encoding::fp16, Encoding::bf16};
  return {.encoding = encodings.at(static_cast<std::size_t>(made.base) % encodings.size())};
}

std::string_view name_of(Made::What setting) {
  if (setting == Made::What::optimizer) return "set_optimizer";
  if (setting == Made::What::compression) return "set_gradient_compression";
  return "load_optimizer_states";
}

/// The last change was `base` throughout.
optimizer::State state_of(const Made& made) {
  const std::vector<float> change(shape_of(made.key).count(), made.base);
  const auto bytes = std::as_bytes(std::span(change));
  return {.dtype = DType::f32, .updates = 1, .slots = {{bytes.begin(), bytes.end()}}};
}

}  // namespace

/// One worker: the program, and what the library's thread does for it.
class Worker {
 public:
  Worker(World& world, int rank)
      : world_(world),
        rank_(rank),
        requests_(rank, static_cast<std::size_t>(world.plan_.servers),
                  {.stall_report_after = 10h,
                   .timeout = world.plan_.timeout,
                   .answer_within = 1h,
                   .send = [this](std::size_t server,
                                  const ToServer& said) { world_.send(rank_, server, said); },
                   .clock = [this] { return world_.now_; }},
                  tally_),
        outboxes_(static_cast<std::size_t>(world.plan_.servers)),
        is_sending_(outboxes_.size()) {
    begin_step();
  }

  void take(std::size_t server, const Answer& answer) { requests_.take(server, answer); }
  std::optional<Clock::time_point> due() {
    const auto due = requests_.due();
    const auto widens = requests_.window().due();
    if (!due || !widens) return due ? due : widens;
    return std::min(*due, *widens);
  }
  bool is_done() const { return step_ == world_.plan_.steps.size(); }
  void look() {
    requests_.look(world_.now_);
    requests_.window().look(world_.now_);
    go_on();
    fill();
  }

  std::vector<Ending> ends;

 private:
  struct Open {
    Made made;
    std::shared_ptr<base::Completion> completion;
    std::unique_ptr<std::vector<float>> values;
  };
  const Step& step() const { return world_.plan_.steps[step_]; }

  void begin_step() {
    if (is_done()) return;
    attempt_ = 1;
    is_late_ = true;
    world_.after(step().lateness[static_cast<std::size_t>(rank_)], [this] {
      is_late_ = false;
      begin_phase(0);
    });
  }

  void begin_phase(std::size_t phase) {
    phase_ = phase;
    for (const Made& made : step().phases[phase]) open_.push_back(make(made));
    fill();
  }

  /// Goes on once all calls of a phase are over.
  void go_on() {
    const auto is_over = [](const Open& one) { return one.completion->is_done(); };
    if (is_done() || is_late_ || !std::ranges::all_of(open_, is_over)) return;
    // Nobody has a part in a pull, so the program makes it again alone.
    bool pulls_again = false;
    for (Open& one : open_) {
      const bool is_pull = one.made.what == Made::What::pull || one.made.what == Made::What::row;
      if (!is_pull || !Ending{one.made, end_of(one)}.is_late()) continue;
      one = make(one.made);
      pulls_again = true;
    }
    if (pulls_again) return;
    bool failed = false;
    for (const Open& one : std::exchange(open_, {})) {
      ends.push_back({one.made, end_of(one)});
      failed = failed || ends.back().is_late();
      const bool compresses = one.made.what == Made::What::compression && !ends.back().is_late();
      if (compresses) compression_ = compression_of(one.made);
    }
    if (!failed && phase_ + 1 < step().phases.size()) return begin_phase(phase_ + 1);
    if (failed && attempt_++ < step().attempts) return begin_phase(0);
    ++step_;
    begin_step();
  }

  std::string end_of(const Open& one) const {
    std::string error = error_of([&] { one.completion->wait_until(world_.now_); });
    if (error != "no error") return error;
    if (!one.made.gets_data()) return "done";
    if (one.made.what == Made::What::row) return fmt::format("row {}", one.values->front());
    const bool is_whole =
        std::ranges::adjacent_find(*one.values, std::not_equal_to()) == one.values->end();
    return is_whole ? fmt::format("{}", one.values->front()) : "torn";
  }

  Open make(const Made& made) {
    const auto call = std::make_shared<InFlightCall>();
    Open one{made, nullptr,
             std::make_unique<std::vector<float>>(shape_of(made.key).count(),
                                                  made.base * static_cast<float>(rank_ + 1))};
    if (made.is_setting()) {
      call->is_setting = true;
      call->counts_if_failed = world_.plan_.asynchronous;
      call->what = name_of(made.what);
    } else {
      const Tensor values(one.values->data(), shape_of(made.key), DType::f32);
      Task& task = call->task;
      task = {.key = name_of(made.key), .root = made.root, .shape = shape_of(made.key)};
      if (made.what == Made::What::round) {
        task.kind = made.kind;
        task.in = values;
      }
      if (made.what == Made::What::row) task.rows = {0};
      if (!task.kind || wants_data({.kind = made.kind, .root = made.root}, rank_)) {
        task.outs = {values};
      }
      call->key = task.key;
      call->kind = task.kind;
      call->what = task.describe();
    }
    call->completion = one.completion = std::make_shared<base::Completion>(1, call->what);
    if (call->is_setting) {
      settings_.emplace_back(call, made);
      return one;
    }
    const std::uint32_t pieces = pieces_of(made.key);
    const std::uint32_t concerned = made.what == Made::What::row ? 1 : pieces;
    requests_.begin(call, concerned);
    for (std::uint32_t piece = 0; piece < concerned; ++piece) {
      outboxes_[piece % outboxes_.size()].add({call, piece, pieces});
    }
    return one;
  }

  /// The states first that worker 0 brings.
  void send_setting(const std::shared_ptr<InFlightCall>& call, const Made& made) {
    const auto servers = static_cast<std::uint32_t>(outboxes_.size());
    const bool brings = made.what == Made::What::load && rank_ == 0;
    const std::uint32_t pieces = brings ? pieces_of(made.key) : 0;
    requests_.begin(call, pieces + servers);
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      const std::vector<std::byte> bytes = packed(
          {.rule = "", .states = {{name_of(made.key), part_of(state_of(made), piece, pieces)}}});
      const std::uint64_t sequence = requests_.add(piece % servers, call, piece, pieces, 0, true);
      world_.send(rank_, piece % servers,
                  SetState{sequence, {name_of(made.key), piece, pieces}, bytes});
    }
    for (std::uint32_t server = 0; server < servers; ++server) {
      const std::uint64_t sequence = requests_.add(server, call, server, servers);
      world_.send(rank_, server, setting_of(made, sequence));
    }
  }

  ToServer setting_of(const Made& made, std::uint64_t sequence) const {
    if (made.what == Made::What::compression) {
      return SetCompression{sequence, compression_of(made)};
    }
    const Optimizer optimizer = optimizer_of(made, world_.plan_.asynchronous);
    if (made.what == Made::What::optimizer) return SetOptimizer{sequence, optimizer};
    if (rank_ > 0) return LoadStates{.sequence = sequence};
    return LoadStates{.sequence = sequence, .rule = "sgd", .optimizer = optimizer};
  }

  /// One piece after the other leaves, and settings behind them.
  void fill() {
    for (std::size_t server = 0; server < outboxes_.size(); ++server) {
      Outbox& outbox = outboxes_[server];
      if (is_sending_[server] || outbox.empty() || outbox.next().call->is_undecided) continue;
      if (!requests_.window().lets_through(server)) continue;
      send_piece(server, outbox.take());
      is_sending_[server] = true;
      world_.after(world_.up_to(world_.plan_.slowest_piece), [this, server] {
        is_sending_[server] = false;
        fill();
      });
    }
    if (!std::ranges::all_of(outboxes_, &Outbox::empty)) return;
    for (const auto& [call, made] : std::exchange(settings_, {})) send_setting(call, made);
  }

  void send_piece(std::size_t server, const Outbox::Entry& entry) {
    const InFlightCall& call = *entry.call;
    if (!call.withdrawn && !call.completion) return;
    const Task& task = call.task;
    const PieceName name{*call.key, entry.piece, entry.pieces};
    const std::uint64_t sequence =
        requests_.add(server, entry.call, entry.piece, entry.pieces, 4096);
    if (call.withdrawn) {
      if (!call.kind) return;
      return world_.send(rank_, server, Withdrawal{sequence, name, *call.kind, *call.withdrawn});
    }
    const Shard mine =
        shard(task.shape.count(), static_cast<int>(entry.piece), static_cast<int>(entry.pieces));
    if (!task.kind) {
      Pull pull{sequence, name, task.dtype, task.shape};
      if (task.rows) pull.rows = rows_within(*task.rows, task.shape, mine);
      return world_.send(rank_, server, pull);
    }
    Contribution said{sequence, name, *task.kind, task.op, task.root, task.dtype, task.shape};
    if (brings_data(said, rank_)) {
      said.data = {task.in.as<const std::byte>() + mine.begin * sizeof(float),
                   mine.count() * sizeof(float)};
      compressor_.compress(said, compression_, mine);
    }
    world_.send(rank_, server, said);
  }

  World& world_;
  const int rank_;
  WorkerTally tally_;
  OutstandingRequests requests_;
  std::vector<Outbox> outboxes_;
  std::vector<bool> is_sending_;
  std::vector<Open> open_;
  std::vector<std::pair<std::shared_ptr<InFlightCall>, Made>> settings_;  ///< not sent yet
  Compressor compressor_;
  Compression compression_;
  std::size_t step_ = 0;
  std::size_t phase_ = 0;
  int attempt_ = 0;
  bool is_late_ = false;
};

World::World(Plan plan, std::uint64_t seed) : plan_(std::move(plan)), random_(seed) {
  for (int server = 0; server < plan_.servers; ++server) {
    tables_.push_back(new_table(static_cast<std::size_t>(server)));
  }
  for (int worker = 0; worker < plan_.workers; ++worker) {
    workers_.push_back(std::make_unique<Worker>(*this, worker));
  }
}
World::~World() = default;

std::unique_ptr<Table> World::new_table(std::size_t server) {
  return std::make_unique<Table>(Rules{
      .workers = plan_.workers,
      .asynchronous = plan_.asynchronous,
      .staleness = plan_.staleness,
      .send = [this, server](int worker, const Answer& one) { answer(server, worker, one); }});
}

/// Messages that the server sent before are still on their way.
void World::restart(std::size_t server) {
  ArchiveWriter to;
  tables_[server]->save(to);
  const net::Bytes state = to.take();
  ArchiveReader from(state);
  tables_[server] = new_table(server);
  tables_[server]->load(from);
  from.finish();
}

Clock::duration World::up_to(Clock::duration most) {
  return Clock::duration(random_() % static_cast<std::uint64_t>(most.count() + 1));
}

void World::after(Clock::duration time, Event event) {
  events_.emplace(now_ + time, std::move(event));
}

void World::deliver(Clock::time_point& last, Event event) {
  last = std::max(last, now_ + up_to(plan_.slowest_message));
  events_.emplace(last, std::move(event));
}

void World::send(int worker, std::size_t server, const ToServer& said) {
  deliver(last_up_[{worker, server}], [this, worker, server, bytes = encode(said)] {
    if (plan_.restarts && random_() % 16 == 0) restart(server);
    tables_[server]->receive(worker, decode_to_server(bytes));
  });
}

void World::answer(std::size_t server, int worker, const Answer& answer) {
  deliver(last_down_[{worker, server}], [this, server, worker, bytes = encode(answer)] {
    workers_[static_cast<std::size_t>(worker)]->take(server, decode_answer(bytes));
  });
}

bool World::run() {
  for (;;) {
    for (const auto& worker : workers_) worker->look();
    if (std::ranges::all_of(workers_, [](const auto& worker) { return worker->is_done(); })) {
      return true;
    }
    auto next = Clock::time_point::max();
    if (!events_.empty()) next = events_.begin()->first;
    for (const auto& worker : workers_) next = std::min(next, worker->due().value_or(next));
    if (next == Clock::time_point::max()) return false;
    now_ = std::max(now_, next);
    while (!events_.empty() && events_.begin()->first <= now_) {
      auto event = events_.extract(events_.begin());
      event.mapped()();
    }
  }
}

const std::vector<Ending>& World::ends_of(int worker) const {
  return workers_.at(static_cast<std::size_t>(worker))->ends;
}

float World::stored(std::size_t key) const {
  std::vector<float> all;
  for (const auto& table : tables_) {
    for (const Table::PieceContent& one : table->contents()) {
      if (one.name.key != name_of(key)) continue;
      const auto* const values = one.content.elements.as<const float>();
      all.insert(all.end(), values, values + one.content.elements.count());
    }
  }
  CHECK(std::ranges::adjacent_find(all, std::not_equal_to()) == all.end());
  return all.at(0);
}

}  // namespace tutti::ps::lateness

#include "benchmarks/allreduce/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "examples/command_line/command_line.h"

namespace tutti::bench {
namespace {

using command_line::between;
using command_line::one_of;

/// Names and what they mean, in the order in which --help lists them.
template <typename Value>
using Known = std::vector<std::pair<std::string, Value>>;

/// The second name of each is that of nccl-tests.
const Known<DType> dtypes{
    {"f16", DType::f16},  {"bf16", DType::bf16},     {"f32", DType::f32},   {"f64", DType::f64},
    {"i8", DType::i8},    {"u8", DType::u8},         {"i32", DType::i32},   {"i64", DType::i64},
    {"half", DType::f16}, {"bfloat16", DType::bf16}, {"float", DType::f32}, {"double", DType::f64},
    {"int8", DType::i8},  {"uint8", DType::u8},      {"int32", DType::i32}, {"int64", DType::i64}};
const Known<Operation> operations{
    {"allreduce", Operation::allreduce},           {"broadcast", Operation::broadcast},
    {"reduce_scatter", Operation::reduce_scatter}, {"allgather", Operation::allgather},
    {"all_to_all", Operation::all_to_all},         {"sendrecv", Operation::sendrecv}};
const Known<ReduceOp> reductions{{"sum", ReduceOp::sum},
                                 {"average", ReduceOp::average},
                                 {"min", ReduceOp::min},
                                 {"max", ReduceOp::max},
                                 {"avg", ReduceOp::average}};
const Known<Places> all_places{{"out", Places::out}, {"in", Places::in}, {"both", Places::both}};

template <typename Value>
std::vector<std::string> names_of(const Known<Value>& known) {
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const auto& entry : known) names.push_back(entry.first);
  return names;
}

template <typename Value>
Value meant(const Known<Value>& known, const std::string& name) {
  return std::ranges::find(known, name, &std::pair<std::string, Value>::first)->second;
}

/// CLI11's own validator for enumerations prints their numbers as characters.
template <typename Value>
void add_choice(CLI::App& app, const std::string& option, const std::string& what,
                const Known<Value>& known, Value& value) {
  app.add_option_function<std::string>(
         option, [&known, &value](const std::string& name) { value = meant(known, name); }, what)
      ->check(one_of(names_of(known)).description(""))
      ->type_name("NAME")
      ->default_str(std::string(name(value)));
}

/// A list of them, or "all". The second name of one that is listed twice is left out of "all".
template <typename Value>
void add_choices(CLI::App& app, const std::string& option, const std::string& what,
                 const Known<Value>& known, std::vector<Value>& values) {
  std::vector<std::string> names = names_of(known);
  names.emplace_back("all");
  const auto take = [&known, &values](const std::vector<std::string>& given) {
    values.clear();
    const auto add = [&values](Value value) {
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    };
    for (const std::string& name : given) {
      if (name != "all") add(meant(known, name));
      if (name == "all") std::ranges::for_each(known, [&](const auto& one) { add(one.second); });
    }
  };
  app.add_option_function<std::vector<std::string>>(option, take, what)
      ->delimiter(',')
      ->check(one_of(names).description(""))
      ->type_name("NAME,...")
      ->default_str(std::string(name(values.front())));
}

void declare(CLI::App& app, Settings& s) {
  constexpr int many = std::numeric_limits<int>::max();
  app.add_option(
         "--impl", s.impls,
         "the implementations to measure, in turns: tutti, timeline (tutti with a timeline), "
         "irreproducible (tutti whose sums need not have the same bits), persistent (tutti, with "
         "an allreduce that is bound once for each size), mpi")
      ->delimiter(',')
      ->check(one_of({"tutti", "timeline", "irreproducible", "persistent", "mpi"}))
      ->capture_default_str();
  add_choices(app, "--op",
              "all, or some of allreduce, broadcast, reduce_scatter, allgather, all_to_all and "
              "sendrecv (each rank sends to the next one)",
              operations, s.ops);
  add_choices(app, "-o,--redop",
              "all, or some of sum, average, min and max, for what reduces; MPI has no average",
              reductions, s.redops);
  add_choice(app, "-d,--dtype", "f16, bf16, f32, f64, i8, u8, i32 or i64", dtypes, s.dtype);
  add_choice(app, "--place",
             "out: not over the input; in: over the input; both: one after the other, for each "
             "size. A broadcast is always in place, a sendrecv never",
             all_places, s.places);
  app.add_option("-b,--min-bytes", s.min_bytes, "the smallest size; K, M, G are powers of 1024")
      ->transform(command_line::size())
      ->type_name("SIZE")
      ->default_str("4");
  app.add_option("-e,--max-bytes", s.max_bytes, "the largest size")
      ->transform(command_line::size())
      ->type_name("SIZE")
      ->default_str("64M");
  app.add_option("-f,--factor", s.factor, "the factor from one size to the next, at least 2")
      ->check(between(2, 1 << 20).description(""))
      ->capture_default_str();
  app.add_option("--bytes", s.sizes, "these sizes, instead of --min-bytes to --max-bytes")
      ->delimiter(',')
      ->transform(command_line::size())
      ->type_name("SIZE,...");
  app.add_flag("--shared", s.shared, "also measure tutti with tensors in node-shared memory");
  app.add_option("-n,--iters", s.iterations,
                 "the number of turns for each size; 0: as many as --seconds allow, up to 1000")
      ->check(between(0, many).description(""))
      ->capture_default_str();
  app.add_option("--least", s.least,
                 "the least number of turns for each size, however long they take")
      ->check(between(1, 1000).description(""))
      ->capture_default_str();
  app.add_option("-w,--warmup", s.warmup, "the number of turns for each size that are not measured")
      ->check(between(0, many).description(""))
      ->capture_default_str();
  app.add_option("--rest", s.rest,
                 "the milliseconds before each turn in which the program sends nothing")
      ->check(between(0.0, 1e4).description(""))
      ->capture_default_str();
  app.add_option("--seconds", s.seconds,
                 "the time for each size, with all implementations and checks")
      ->capture_default_str();
  app.add_flag("--check,!--no-check", s.check, "check every result, outside the measured time")
      ->default_str("on");
  app.add_option("--json", s.json,
                 "write the rows to this file: an array with one object for each row");
  app.add_option("--csv", s.csv, "write the rows to this file as comma-separated values");
  app.add_option("--min-busbw", s.min_busbw,
                 "end with status 1 if the average busbw of tutti's rows is below this, in GB/s "
                 "(MPI's, if MPI alone is measured)")
      ->check(between(0, 1e6).description(""));
  app.add_option(
         "--link-gbps", s.link_gbps,
         "the payload that a host's link carries in each direction, in Gbit/s: the bound of "
         "ranks on several hosts")
      ->check(between(0, 1e6).description(""));
  app.add_option("--kv-store,--kvstore", s.store, "the type of tutti's store")
      ->capture_default_str();
  app.add_option("--wire", s.wire,
                 "the format in which tutti's f32 tensors travel: none (f32), fp16 or bf16")
      ->check(one_of({"none", "fp16", "bf16"}).description(""))
      ->capture_default_str();
  app.add_option("--gpu", s.gpu, "put the tensors of every rank on this device, as CUDA numbers it")
      ->check(between(0, many).description(""));
  app.add_option("-r,--root", s.root, "the root of a broadcast")
      ->check(between(0, many).description(""))
      ->capture_default_str();
}

/// The most ranks n for which n * n fits into 7 bits.
constexpr int most_averaging_ranks = 11;

template <typename Value>
bool contains(const std::vector<Value>& values, Value value) {
  return std::ranges::find(values, value) != values.end();
}

/// Empty: nothing is wrong.
std::string what_is_wrong_with_sizes(const Settings& s) {
  constexpr std::size_t most = std::size_t{1} << 40;  // below it, no size overflows
  const auto [least, largest] = s.sizes.empty()
                                    ? std::pair(s.max_bytes, s.max_bytes)
                                    : std::pair(*std::min_element(s.sizes.begin(), s.sizes.end()),
                                                *std::max_element(s.sizes.begin(), s.sizes.end()));
  const std::string option = s.sizes.empty() ? "--max-bytes" : "--bytes";
  if (largest > most) return option + " is above 1T";
  if (least < size_of(s.dtype)) {
    return option + " is less than an element of " + std::string(tutti::name(s.dtype));
  }
  if (s.sizes.empty() && s.min_bytes > s.max_bytes) return "--min-bytes is above --max-bytes";
  if (largest / size_of(s.dtype) > std::numeric_limits<int>::max() && s.runs("mpi")) {
    return option + " has more elements than MPI's int counts; use --impl tutti or a wider dtype";
  }
  return {};
}

/// Empty: nothing is wrong.
std::string what_is_wrong_with_operations(const Settings& s, int ranks) {
  const bool half = s.dtype == DType::f16 || s.dtype == DType::bf16;
  const bool any_reduces = std::ranges::any_of(s.ops, reduces);
  const bool averages = any_reduces && contains(s.redops, ReduceOp::average);
  if (half && any_reduces && s.runs("mpi")) {
    return "MPI cannot reduce " + std::string(tutti::name(s.dtype)) + "; use --impl tutti";
  }
  if (averages && s.runs("mpi")) {
    return "MPI has no average; use --impl tutti, or --redop sum,min,max";
  }
  // The inputs of an average are multiples of the ranks, and their sum must fit.
  if (averages && s.check && size_of(s.dtype) < 4 && ranks > most_averaging_ranks) {
    return "averages of " + std::string(tutti::name(s.dtype)) + " are checked up to " +
           std::to_string(most_averaging_ranks) + " ranks; use --no-check or a wider dtype";
  }
  if (contains(s.ops, Operation::sendrecv)) {
    if (ranks < 2) return "--op sendrecv needs two ranks; start it with mpirun -n 2";
    if (s.gpu) return "--op sendrecv is not for --gpu: tutti sends tensors on the CPU alone";
  }
  return {};
}

/// Empty: nothing is wrong.
std::string what_is_wrong(const Settings& s, int ranks) {
  std::string wrong = what_is_wrong_with_sizes(s);
  if (!wrong.empty()) return wrong;
  if (!(s.seconds > 0)) return "--seconds takes a time above 0";
  wrong = what_is_wrong_with_operations(s, ranks);
  if (!wrong.empty()) return wrong;
  if (s.root >= ranks) return "--root is not among the ranks 0 to " + std::to_string(ranks - 1);
  if (s.runs("persistent") && s.ops != std::vector{Operation::allreduce}) {
    return "--impl persistent measures an allreduce; leave the other operations out of --op";
  }
  if (s.shared && !s.runs("tutti")) return "--shared needs --impl tutti";
  if (s.gpu && (s.shared || s.runs("mpi"))) {
    return "--gpu is neither for MPI nor for tensors in node-shared memory; use --impl tutti "
           "without "
           "--shared";
  }
  if (s.runs("timeline") && s.store != "dist_sync_mpi") {
    return "a store of type '" + s.store + "' records no timeline; leave it out of --impl";
  }
  return {};
}

}  // namespace

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::allreduce:
      return "allreduce";
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::allgather:
      return "allgather";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::sendrecv:
      break;
  }
  return "sendrecv";
}

std::string_view name(Places places) {
  if (places == Places::out) return "out";
  return places == Places::in ? "in" : "both";
}

bool reduces(Operation operation) {
  return operation == Operation::allreduce || operation == Operation::reduce_scatter;
}

bool has_shares(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::allgather ||
         operation == Operation::all_to_all;
}

bool Settings::runs(std::string_view impl) const {
  return std::find(impls.begin(), impls.end(), impl) != impls.end();
}

std::vector<Case> Settings::cases(Operation op) const {
  std::vector<bool> in_place;
  const bool only_in = op == Operation::broadcast;
  const bool only_out = op == Operation::sendrecv;
  if (only_out || (!only_in && places != Places::in)) in_place.push_back(false);
  if (only_in || (!only_out && places != Places::out)) in_place.push_back(true);
  std::vector<Case> result;
  for (const ReduceOp redop : reduces(op) ? redops : std::vector{ReduceOp::sum}) {
    for (const bool over : in_place) result.push_back({op, redop, over});
  }
  return result;
}

std::vector<std::size_t> Settings::counts(Operation op, int ranks) const {
  std::vector<std::size_t> result;
  const std::size_t width = size_of(dtype);
  const std::size_t unit = has_shares(op) ? static_cast<std::size_t>(ranks) : 1;
  const auto count = [&](std::size_t bytes) {
    return std::max<std::size_t>(bytes / width / unit, 1) * unit;
  };
  for (const std::size_t bytes : sizes) result.push_back(count(bytes));
  if (!result.empty()) return result;
  for (std::size_t bytes = std::max(min_bytes, width); bytes <= max_bytes; bytes *= factor) {
    if (result.empty() || result.back() != count(bytes)) result.push_back(count(bytes));
    if (bytes > max_bytes / factor) break;
  }
  return result;
}

std::optional<int> parse(int argc, const char* const* argv, int ranks, bool speaks,
                         Settings& settings) {
  CLI::App app(
      "Times tutti's allreduce and other operations beside MPI's, turn by turn in one run.\n"
      "Start it with mpirun: mpirun -n 4 allreduce_bench -b 8 -e 16M -f 2");
  declare(app, settings);
  app.final_callback([&] {
    const std::string wrong = what_is_wrong(settings, ranks);
    if (!wrong.empty()) throw CLI::ValidationError(wrong);
  });
  return command_line::parse_or_status(app, argc, argv, speaks);
}

}  // namespace tutti::bench

#include "benchmarks/allreduce/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <map>

#include "examples/command_line/command_line.h"

namespace tutti::bench {
namespace {

using command_line::between;
using command_line::one_of;

const std::map<std::string, DType> dtypes{
    {"f16", DType::f16}, {"bf16", DType::bf16}, {"f32", DType::f32}, {"f64", DType::f64},
    {"i8", DType::i8},   {"u8", DType::u8},     {"i32", DType::i32}, {"i64", DType::i64}};
const std::map<std::string, Operation> operations{{"allreduce", Operation::allreduce},
                                                  {"broadcast", Operation::broadcast},
                                                  {"reduce_scatter", Operation::reduce_scatter},
                                                  {"allgather", Operation::allgather}};

/// CLI11's own validator for enumerations prints their numbers as characters.
template <typename Value>
void add_choice(CLI::App& app, const std::string& option, const std::string& what,
                const std::map<std::string, Value>& known, Value& value) {
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const auto& entry : known) names.push_back(entry.first);
  app.add_option_function<std::string>(
         option, [&known, &value](const std::string& name) { value = known.at(name); }, what)
      ->check(one_of(names).description(""))
      ->type_name("NAME")
      ->default_str(std::string(name(value)));
}

void declare(CLI::App& app, Settings& s) {
  constexpr int many = std::numeric_limits<int>::max();
  app.add_option(
         "--impl", s.impls,
         "the implementations to measure, in turns: tutti, timeline (tutti with a timeline), "
         "irreproducible (tutti whose sums need not have the same bits), mpi")
      ->delimiter(',')
      ->check(one_of({"tutti", "timeline", "irreproducible", "mpi"}))
      ->capture_default_str();
  add_choice(app, "--op", "allreduce, broadcast, reduce_scatter or allgather", operations, s.op);
  add_choice(app, "--dtype", "f16, bf16, f32, f64, i8, u8, i32 or i64", dtypes, s.dtype);
  app.add_option("--min-bytes", s.min_bytes, "the smallest size; K, M, G are powers of 1024")
      ->transform(command_line::size())
      ->type_name("SIZE")
      ->default_str("4");
  app.add_option("--max-bytes", s.max_bytes, "the largest size")
      ->transform(command_line::size())
      ->type_name("SIZE")
      ->default_str("64M");
  app.add_option("--factor", s.factor, "the factor from one size to the next, at least 2")
      ->check(between(2, 1 << 20).description(""))
      ->capture_default_str();
  app.add_option("--bytes", s.sizes, "these sizes, instead of --min-bytes to --max-bytes")
      ->delimiter(',')
      ->transform(command_line::size())
      ->type_name("SIZE,...");
  app.add_flag("--in-place", s.in_place, "write the result over the input");
  app.add_flag("--shared", s.shared, "also measure tutti with tensors in node-shared memory");
  app.add_option("--iters", s.iterations,
                 "the number of turns for each size; 0: as many as --seconds allow, up to 1000")
      ->check(between(0, many).description(""))
      ->capture_default_str();
  app.add_option("--least", s.least,
                 "the least number of turns for each size, however long they take")
      ->check(between(1, 1000).description(""))
      ->capture_default_str();
  app.add_option("--warmup", s.warmup, "the number of turns for each size that are not measured")
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
  app.add_option("--kv-store,--kvstore", s.store, "the type of tutti's store")
      ->capture_default_str();
  app.add_option("--wire", s.wire,
                 "the format in which tutti's f32 tensors travel: none (f32), fp16 or bf16")
      ->check(one_of({"none", "fp16", "bf16"}).description(""))
      ->capture_default_str();
  app.add_option("--gpu", s.gpu, "put the tensors of every rank on this device, as CUDA numbers it")
      ->check(between(0, many).description(""));
  app.add_option("--root", s.root, "the root of a broadcast")
      ->check(between(0, many).description(""))
      ->capture_default_str();
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
std::string what_is_wrong(const Settings& s, int ranks) {
  std::string wrong = what_is_wrong_with_sizes(s);
  if (!wrong.empty()) return wrong;
  if (!(s.seconds > 0)) return "--seconds takes a time above 0";
  const bool half = s.dtype == DType::f16 || s.dtype == DType::bf16;
  if (half && reduces(s.op) && s.runs("mpi")) {
    return "MPI cannot reduce " + std::string(tutti::name(s.dtype)) + "; use --impl tutti";
  }
  if (s.root >= ranks) return "--root is not among the ranks 0 to " + std::to_string(ranks - 1);
  if (s.in_place && is_half(s.op)) {
    return "--in-place is not for " + std::string(name(s.op)) + ", whose result MPI puts elsewhere";
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
      break;
  }
  return "allgather";
}

bool reduces(Operation operation) {
  return operation == Operation::allreduce || operation == Operation::reduce_scatter;
}

bool is_half(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::allgather;
}

bool Settings::runs(std::string_view impl) const {
  return std::find(impls.begin(), impls.end(), impl) != impls.end();
}

std::vector<std::size_t> Settings::counts(int ranks) const {
  std::vector<std::size_t> result;
  const std::size_t width = size_of(dtype);
  const std::size_t unit = is_half(op) ? static_cast<std::size_t>(ranks) : 1;
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
      "Times tutti's allreduce, broadcast, reduce_scatter or allgather beside MPI's, turn by\n"
      "turn in one run.\n"
      "Start it with mpirun: mpirun -n 4 allreduce_bench --max-bytes 16M");
  declare(app, settings);
  app.final_callback([&] {
    const std::string wrong = what_is_wrong(settings, ranks);
    if (!wrong.empty()) throw CLI::ValidationError(wrong);
  });
  return command_line::parse_or_status(app, argc, argv, speaks);
}

}  // namespace tutti::bench

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "benchmarks/training_step/bound.h"
#include "benchmarks/training_step/model.h"
#include "benchmarks/training_step/rehearsal.h"
#include "benchmarks/training_step/report.h"
#include "benchmarks/training_step/settings.h"
#include "tutti/error.h"
#include "tutti/version.h"

using namespace tutti::bench;
using Catch::Matchers::Contains;

namespace {

StepSettings step_of(std::vector<const char*> words) {
  words.insert(words.begin(), "training_step");
  return parse_step(static_cast<int>(words.size()), words.data()).value();
}

double work_of(const Model& model) {
  double work = 0;
  for (const LayerShape& layer : model) work += layer.work;
  return work;
}

/// Simulates the link of the bound. The link carries the first layer whose gradients are ready, and
/// turns to a more urgent layer at once. Time passes in small steps.
double simulate(const std::vector<LayerCost>& layers, double seconds_per_byte, double tick) {
  std::vector<double> ready(layers.size());
  double now = 0;
  for (std::size_t l = layers.size(); l-- > 0;) ready[l] = now += layers[l].backward;
  std::vector<double> left;
  left.reserve(layers.size());
  for (const LayerCost& layer : layers) left.push_back(layer.bytes * seconds_per_byte);
  std::vector<double> arrived = ready;
  now = 0;
  while (std::ranges::any_of(left, [](double rest) { return rest > 0; })) {
    now += tick;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (left[l] <= 0 || ready[l] > now - tick / 2) continue;
      left[l] -= tick;
      arrived[l] = now;
      break;
    }
  }
  double end = ready.front();
  for (std::size_t l = 0; l < layers.size(); ++l) {
    end = std::max(end, arrived[l]) + layers[l].forward;
  }
  return end;
}

}  // namespace

TEST_CASE("hosts that were asked for and are not there are refused, with both numbers") {
  const auto wrong = [](std::vector<const char*> words, int found) {
    return step_of(std::move(words)).what_is_wrong_with_hosts(found);
  };
  CHECK(wrong({}, 1).empty());
  CHECK(wrong({"--hosts", "1"}, 1).empty());
  CHECK(wrong({"--link-gbps", "1"}, 2).empty());
  CHECK(wrong({"--link-gbps", "1", "--hosts", "4"}, 4).empty());
  CHECK_THAT(wrong({"--link-gbps", "1", "--hosts", "4"}, 1),
             Contains("--hosts 4, but the ranks are on 1") && Contains("scripts/lab"));
  CHECK_THAT(wrong({"--hosts", "1"}, 2), Contains("--hosts 1, but the ranks are on 2"));
  CHECK_THAT(wrong({"--link-gbps", "1"}, 1), Contains("all ranks are on 1"));
}

TEST_CASE("VGG-16 has the tensors, weights and work that others count") {
  const Model model = make_model("vgg16", 1);
  CHECK(model.size() == 16);
  CHECK(tensor_count(model) == 32);
  CHECK(element_count(model) == 138'357'544);
  CHECK(model[13].tensors == std::vector<std::size_t>{25088UL * 4096, 4096});
  CHECK(work_of(model) == Approx(15.47e9).epsilon(0.001));
}

TEST_CASE("ResNet-50 has the tensors, weights and work that others count") {
  const Model model = make_model("resnet50", 1);
  CHECK(model.size() == 53 + 53 + 1);
  CHECK(tensor_count(model) == 161);
  CHECK(element_count(model) == 25'557'032);
  CHECK(model.front().tensors == std::vector<std::size_t>{9408});
  CHECK(model.back().tensors == std::vector<std::size_t>{2'048'000, 1000});
  // 4.09e9 in convolutions and the dense layer, and 2 for each of 10.6e6 normalised activations.
  CHECK(work_of(model) == Approx(4.09e9 + 0.02e9).epsilon(0.003));
}

TEST_CASE("scaled tensors are as many, none is empty, and the work stays") {
  const Model full = make_model("resnet50", 1);
  const Model small = make_model("resnet50", 0.001);
  CHECK(tensor_count(small) == 161);
  CHECK(small.front().tensors.front() == 9);  // of 9408
  CHECK(small[1].tensors.front() == 1);       // of 64
  CHECK(work_of(small) == work_of(full));
  CHECK_THROWS_AS(make_model("vgg17", 1), tutti::Error);
}

TEST_CASE("a link carries 2(n-1)/n times the tensor") {
  CHECK(seconds_per_byte(1, 2) == Approx(8e-9));
  CHECK(seconds_per_byte(1, 8) == Approx(1.75 * 8e-9));
  CHECK(seconds_per_byte(10, 8) == Approx(1.75 * 8e-10));
  CHECK(seconds_per_byte(10, 1) == 0);
}

TEST_CASE("without anything to send, a step takes its compute") {
  CHECK(step_bound(std::vector<LayerCost>{{1, 2, 0}, {3, 4, 0}}, 1) == Approx(10));
}

TEST_CASE("the first layer's gradients travel when all compute of backward is over") {
  CHECK(step_bound(std::vector<LayerCost>{{1, 2, 5}, {3, 4, 0}}, 1) == Approx(15));
}

TEST_CASE("a link that is the slowest is idle until the first gradient, and before the last use") {
  // All 106 bytes after the last layer's backward, and its forward after them.
  CHECK(step_bound(std::vector<LayerCost>{{1, 2, 6}, {3, 4, 100}}, 1) == Approx(4 + 106 + 3));
  CHECK(step_bound(std::vector<LayerCost>{{1, 2, 6}, {3, 4, 100}}, 0.5) == Approx(4 + 53 + 3));
}

TEST_CASE("a link that always carries the most urgent gradient reaches the bound, none beats it") {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> whole(0, 20);
  for (int i = 0; i < 200; ++i) {
    std::vector<LayerCost> layers(static_cast<std::size_t>(1 + i % 7));
    for (LayerCost& layer : layers) {
      layer = {static_cast<double>(whole(random)), static_cast<double>(whole(random)),
               static_cast<double>(whole(random))};
    }
    CHECK(simulate(layers, 1, 1) == Approx(step_bound(layers, 1)));
  }
}

TEST_CASE("every option of a training step reaches its setting") {
  const StepSettings s =
      step_of({"--model",     "resnet50",       "--scale", "0.1",      "--compute-ms",
               "30",          "--forward-ms",   "7",       "--busy",   "--priority",
               "off",         "--fusion-bytes", "1M",      "--replay", "off",
               "--wire",      "bf16",           "--steps", "3",        "--warmup",
               "2",           "--alone",        "1",       "--json",   "a.json",
               "--link-gbps", "0.94",           "--hosts", "8",        "--kv-store",
               "local"});
  CHECK(s.model == "resnet50");
  CHECK(s.scale == 0.1);
  CHECK(s.backward_ms == 30);
  CHECK(s.forward_ms == 7);
  CHECK((s.busy && !s.priority));
  CHECK(s.options().fusion_bytes == 1 << 20);
  CHECK_FALSE(s.options().replay);
  CHECK(s.wire == "bf16");
  CHECK(s.wire_bytes() == 2);
  CHECK(s.steps == 3);
  CHECK(s.warmup == 2);
  CHECK(s.alone == 1);
  CHECK(s.json == "a.json");
  CHECK(s.link_gbps == 0.94);
  CHECK(s.hosts == 8);
  CHECK(s.store == "local");
}

TEST_CASE("settings that a training step is not given stay as the store has them") {
  const StepSettings s = step_of({"--compute-ms", "40"});
  CHECK(s.forward_ms == 20);
  CHECK(s.options().replay == tutti::Options().replay);
  CHECK(s.options().fusion_bytes == tutti::Options().fusion_bytes);
  CHECK((s.priority && s.wire_bytes() == 4));
}

TEST_CASE(
    "compute and communication alone are measured as often as steps, or as told and at once") {
  const Turns as_steps = step_of({"--steps", "7", "--warmup", "3"}).alone_steps();
  CHECK((as_steps.warmup == 3 && as_steps.measured == 7));
  const StepSettings told = step_of({"--steps", "7", "--warmup", "3", "--alone", "1"});
  CHECK((told.alone_steps().warmup == 0 && told.alone_steps().measured == 1));
  CHECK((told.whole_steps().warmup == 3 && told.whole_steps().measured == 7));
}

TEST_CASE("as many steps are timed of each kind as its turns say") {
  const StepSettings settings =
      step_of({"--model", "resnet50", "--scale", "0.0001", "--compute-ms", "0.01", "--steps", "4",
               "--warmup", "2", "--alone", "3", "--kv-store", "local"});
  const auto store = tutti::KVStore::create(settings.store);
  const Model model = make_model(settings.model, settings.scale);
  Rehearsal rehearsal(*store, model, settings);
  CHECK(rehearsal.compute_alone().size() == 3);
  const std::uint64_t before = store->counters().tensors_reduced;
  CHECK(rehearsal.communication_alone().size() == 3);
  // The tensors in which the ranks would meet, and the times.
  CHECK(store->counters().tensors_reduced == before + 3 * (tensor_count(model) + 1) + 1);
  CHECK(rehearsal.steps().size() == 4);
  CHECK(rehearsal.wrong() == 0);
}

TEST_CASE("a training step's misspelt options and unusable values are refused") {
  CHECK_THROWS_WITH(step_of({"--modle", "vgg16"}),
                    Contains("unknown option '--modle', did you mean '--model'?"));
  CHECK_THROWS_WITH(step_of({"--comput-ms=5"}), Contains("did you mean '--compute-ms'?"));
  for (const auto& words : std::vector<std::vector<const char*>>{{"--scale", "0"},
                                                                 {"--scale", "nan"},
                                                                 {"--compute-ms", "-1"},
                                                                 {"--steps", "0"},
                                                                 {"--warmup", "0"},
                                                                 {"--alone", "0"},
                                                                 {"--priority", "yes"},
                                                                 {"--wire", "f32"},
                                                                 {"--link-gbps", "0"},
                                                                 {"--model", "lenet"}}) {
    CHECK_THROWS_WITH(step_of(words), Contains(words[0]));
  }
}

TEST_CASE("a training step's report says what of the bound was reached, and against which link") {
  StepReport report{.settings = step_of({}), .options = {}};
  report.elements = 1'000'000;
  report.hosts = 2;
  report.communication.p50 = 8;
  CHECK(link_seconds_per_byte(report) == Approx(2e-9));  // 4 MB in 8 ms
  report.settings.wire = "fp16";
  CHECK(link_seconds_per_byte(report) == Approx(4e-9));
  report.settings.link_gbps = 2;
  CHECK(link_seconds_per_byte(report) == Approx(4e-9));
  report.bound = 97;
  report.step.p50 = 100;
  report.wrong = 3;
  CHECK_THAT(table(report), Contains("with 2 Gbit/s to each of 2 hosts") &&
                                Contains("reached 97.0 % of the bound (target 98 %: short)") &&
                                Contains("#wrong 3"));
  const auto parsed = nlohmann::json::parse(json(report));
  CHECK(parsed["reached"] == 0.97);
  CHECK(parsed["bound_ms"] == 97.0);
  CHECK(parsed["step_ms"]["p50"] == 100.0);
  CHECK(parsed["wrong"] == 3);
  CHECK(parsed["link_gbps"] == 2.0);
  CHECK(parsed["build_type"] == tutti::build_type());
}

TEST_CASE("a training step's report on one host tells times and judges nothing") {
  StepReport report{.settings = step_of({}), .options = {}};
  report.step.p50 = 100;
  CHECK_THAT(table(report), Contains("100.00") && Contains("no bound: all ranks are on one host"));
  CHECK_THAT(table(report), !Contains("%") && !Contains("pass") && !Contains("short"));
  const auto parsed = nlohmann::json::parse(json(report));
  CHECK(parsed["reached"].is_null());
  CHECK(parsed["bound_ms"].is_null());
}

TEST_CASE("against links of an unknown rate a training step is told, but not judged") {
  StepReport report{.settings = step_of({}), .options = {}};
  report.hosts = 2;
  report.bound = 97;
  report.step.p50 = 100;
  CHECK_THAT(table(report), Contains("reached 97.0 % of the bound,") && !Contains("target"));
}

TEST_CASE("a training step's head says how it was built, and how long it takes at least") {
  const StepReport report{
      .settings = step_of({"--compute-ms", "1000", "--steps", "7", "--warmup", "3"}),
      .options = {}};
  CHECK_THAT(head(report), Contains(std::string("# build type: ") + tutti::build_type()) &&
                               Contains("# takes 30 s of compute"));
}

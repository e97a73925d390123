#include "ps/worker/window.h"

#include <catch2/catch.hpp>

using namespace tutti::ps;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t piece_bytes = std::size_t{128} << 10;
constexpr std::size_t pieces = Window::least_bytes / piece_bytes;

/// A window, and the requests that have passed it.
struct Passage {
  explicit Passage(std::size_t servers) : window(servers) {}

  /// How many pieces pass to a server until it is held back, at most so many.
  std::size_t send(std::size_t server, std::size_t most = 100) {
    std::size_t sent = 0;
    for (; sent < most && window.lets_through(server); ++sent)
      window.send(server, piece_bytes, now);
    return sent;
  }
  void answer(std::size_t server, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) window.answer(server, piece_bytes, now);
  }
  /// Answers nothing until the window widens.
  void widen() {
    now = window.due().value();
    window.look(now);
  }
  /// Widens the window to four times the least. The first half of that is then under way.
  void widen_twice() {
    for (int i = 0; i < 2; ++i) {
      send(0);
      widen();
    }
  }

  Window window;
  Window::Time now{1h};
};

}  // namespace

TEST_CASE("a server gets a window more than it has answered") {
  Passage passage(1);
  CHECK(passage.send(0) == pieces);
  passage.answer(0, 1);
  CHECK(passage.send(0) == 1);
  passage.answer(0, pieces);
  CHECK(passage.send(0) == pieces);
}

TEST_CASE("a server gets a window more than the one has answered that has answered least") {
  Passage passage(3);
  for (std::size_t server = 0; server < 3; ++server) CHECK(passage.send(server) == pieces);
  passage.answer(0, pieces - 1);
  passage.answer(1, 1);
  CHECK(passage.send(0) == 0);
  CHECK(passage.send(1) == 0);
  passage.answer(2, 1);
  CHECK(passage.send(0) == 1);
  CHECK(passage.send(1) == 1);
  CHECK(passage.send(2) == 1);
}

TEST_CASE("a server with nothing to answer holds nobody up") {
  Passage passage(2);
  CHECK(passage.send(0, 1) == 1);
  CHECK(passage.send(1) == pieces);
  passage.answer(0, 1);
  passage.answer(1, 2);
  CHECK(passage.send(1) == 2);
}

TEST_CASE("a server that has had less to do begins where the others are") {
  Passage passage(2);
  for (int i = 0; i < 10; ++i) {
    passage.send(0);
    passage.answer(0, pieces - 1);
  }
  CHECK(passage.send(1, 1) == 1);
  CHECK(passage.send(0) == pieces - 1);
}

TEST_CASE("without answers the window widens, so that workers may name keys in another order") {
  Passage passage(1);
  CHECK(passage.send(0, pieces) == pieces);
  CHECK(passage.window.due() == std::nullopt);
  CHECK(passage.send(0) == 0);
  CHECK(passage.window.due() == passage.now + Window::patience);
  passage.window.look(passage.now + Window::patience - 1ns);
  CHECK(passage.send(0) == 0);
  passage.widen();
  CHECK(passage.window.due() == std::nullopt);
  CHECK(passage.send(0) == pieces);
  CHECK(passage.window.due() == passage.now + Window::patience);
  passage.widen();
  CHECK(passage.send(0) == 2 * pieces);
}

TEST_CASE("an answer puts off that the window widens") {
  Passage passage(1);
  passage.send(0);
  passage.now += Window::patience - 1ns;
  passage.answer(0, 1);
  CHECK(passage.send(0) == 1);
  passage.now += 1ns;
  passage.window.look(passage.now);
  CHECK(passage.send(0) == 0);
}

TEST_CASE("once all is answered without that, the window narrows by and by") {
  Passage passage(1);
  passage.widen_twice();
  CHECK(passage.send(0) == 2 * pieces);
  passage.answer(0, 4 * pieces);
  CHECK(passage.send(0) == 4 * pieces);
  passage.answer(0, 4 * pieces);
  CHECK(passage.send(0) == 2 * pieces);
  passage.answer(0, 2 * pieces);
  CHECK(passage.send(0) == pieces);
  passage.answer(0, pieces);
  CHECK(passage.send(0) == pieces);
}

TEST_CASE("a lead ends once all is answered") {
  Passage passage(2);
  for (int i = 0; i < 10; ++i) {
    CHECK(passage.send(1) == pieces);
    passage.answer(1, pieces);
  }
  CHECK(passage.send(0) == pieces);
  CHECK(passage.send(1) == pieces);
}

TEST_CASE("small calls do not narrow a window that has widened") {
  Passage passage(1);
  passage.widen_twice();
  CHECK(passage.send(0) == 2 * pieces);
  passage.answer(0, 4 * pieces);
  for (int i = 0; i < 10; ++i) {
    CHECK(passage.send(0, 1) == 1);
    passage.answer(0, 1);
  }
  CHECK(passage.send(0) == 4 * pieces);
}

TEST_CASE("an answer without elements does not count as one") {
  Passage passage(1);
  passage.send(0);
  passage.now += Window::patience;
  passage.window.send(0, 0, passage.now);
  passage.window.answer(0, 0, passage.now);
  passage.window.look(passage.now);
  CHECK(passage.send(0) == pieces);
}

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "net/poller.h"
#include "net/sockets.h"
#include "worlds.h"

namespace tutti::control::test {
namespace {

void send_text(const base::Fd& socket, const std::string& text) {
  if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) ::_exit(97);
}

std::string receive_text(const base::Fd& socket) {
  std::string text(std::size_t{64} << 10, '\0');
  const ssize_t count = ::recv(socket.get(), text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

/// 'g...' asks for a gather, 't...' tells the test something.
AllGather gather_over(const base::Fd& socket, int size) {
  return [&socket, size](const std::string& mine) {
    send_text(socket, "g" + mine);
    std::vector<std::string> all;
    for (int i = 0; i < size; ++i) {
      const std::string said = receive_text(socket);
      if (said.empty()) ::_exit(98);
      all.push_back(said.substr(1));
    }
    return all;
  };
}

[[noreturn]] void be_rank(int rank, int size, const base::Fd& socket,
                          const std::function<void(const ProcessRank&)>& body) {
  int code = 0;
  try {
    body({rank, gather_over(socket, size),
          [&socket](const std::string& text) { send_text(socket, "t" + text); }});
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %d: %s\n", rank, failure.what());
    code = 99;
  }
  ::_exit(code);
}

}  // namespace

Processes::Processes(int size, const std::function<void(const ProcessRank&)>& body)
    : gathering_(static_cast<std::size_t>(size)), told_(static_cast<std::size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) {
    int pair[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    base::Fd parent(pair[0]);
    const base::Fd child(pair[1]);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      sockets_.clear();
      parent.reset();
      be_rank(rank, size, child, body);
    }
    children_.push_back(pid);
    sockets_.push_back(std::move(parent));
  }
}

Processes::~Processes() {
  for (const pid_t child : children_) {
    if (child <= 0) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

const std::vector<std::vector<std::string>>& Processes::listen(const std::vector<int>& ranks,
                                                               std::size_t count) {
  // A hang's end; processes may take long to come up beside other work.
  const auto deadline = base::Clock::now() + 5 * patience;
  const auto satisfied = [&] {
    for (const int rank : ranks) {
      if (told_[static_cast<std::size_t>(rank)].size() < count) return false;
    }
    return true;
  };
  while (!satisfied()) {
    std::vector<pollfd> entries;
    for (const base::Fd& socket : sockets_) entries.push_back({socket.get(), POLLIN, 0});
    REQUIRE(::poll(entries.data(), entries.size(), net::milliseconds_until(deadline)) > 0);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      const std::string said = receive_text(sockets_[i]);
      if (said.empty()) {
        sockets_[i].reset();
      } else {
        take(static_cast<int>(i), said);
      }
    }
  }
  return told_;
}

void Processes::take(int rank, const std::string& said) {
  const auto at = static_cast<std::size_t>(rank);
  (said.front() == 't' ? told_ : gathering_)[at].push_back(said.substr(1));
  for (const auto& waiting : gathering_) {
    if (waiting.empty()) return;
  }
  for (const base::Fd& socket : sockets_) {
    for (const auto& waiting : gathering_) send_text(socket, "g" + waiting.front());
  }
  for (auto& waiting : gathering_) waiting.erase(waiting.begin());
}

void Processes::signal(int rank, int number) const {
  ::kill(children_[static_cast<std::size_t>(rank)], number);
}

int Processes::wait(int rank) {
  int status = 0;
  ::waitpid(std::exchange(children_[static_cast<std::size_t>(rank)], 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace tutti::control::test

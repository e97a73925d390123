#include "net/end_notices.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "net/sockets.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

constexpr std::size_t longest_packet = 4096;
constexpr std::string_view complete = "complete";

/// Empty if nobody of this user listens there. A wait then lasts until its deadline, as without a
/// launcher.
base::Fd reach(const std::string& address) {
  if (address.empty()) return {};
  try {
    AbstractPeer helper = connect_abstract(address);
    if (helper.socket && is_same_user(helper.socket)) return std::move(helper.socket);
    base::log().debug("the launcher's helper does not answer at {}", base::printable(address));
  } catch (const Error& error) {
    base::log().debug("the launcher's helper cannot be reached: {}", error.what());
  }
  return {};
}

int worker_in(std::string_view title) {
  constexpr std::string_view head = "worker ";
  int number = -1;
  if (!title.starts_with(head)) return number;
  std::from_chars(title.data() + head.size(), title.data() + title.size(), number);
  return number;
}

void send(const base::Fd& socket, std::string_view packet) {
  if (socket) ::send(socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
}

}  // namespace

EndNotices::EndNotices(const std::string& address, const std::string& job)
    : socket_(reach(address)) {
  send(socket_, job);
}

const std::vector<EndNotice>& EndNotices::heard() {
  std::array<char, longest_packet> packet{};
  while (socket_) {
    const ssize_t size = ::recv(socket_.get(), packet.data(), packet.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size <= 0) {
      socket_ = {};
      break;
    }
    const std::string_view said(packet.data(), static_cast<std::size_t>(size));
    const std::size_t line_end = said.find('\n');
    if (line_end == said.npos) continue;
    heard_.push_back({base::printable(said.substr(0, line_end), 64),
                      worker_in(said.substr(0, line_end)),
                      base::printable(said.substr(line_end + 1))});
  }
  return heard_;
}

void EndNotices::tell_complete() const {
  send(socket_, complete);
}

}  // namespace tutti::net

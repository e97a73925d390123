#pragma once
#include <functional>
#include <vector>

#include "control/segment.h"
#include "net/message_stream.h"

namespace tutti::control {

/// The receiving end of all mailboxes of one node. The thread that collects the node's messages
/// owns it: tutti-coord on rank 0's node, the leader's tutti-link on others.
class NodePost {
 public:
  explicit NodePost(const Segment& segment);

  /// Takes every message that ranks have sent. `take(local index, message)`.
  void collect(const std::function<void(int, net::ConstBytes)>& take);
  void deliver(int local_index, net::ConstBytes message);
  /// Writes messages for which a mailbox had no room before.
  void flush();
  /// Ranks that have announced their departure since the last call. By local index.
  std::vector<int> take_departed();
  /// The ranks among `ranks` that have begun to close the store since the last call.
  std::vector<int> take_closing(const std::vector<int>& ranks);
  /// Tells the node's ranks that this rank of another node closes the store.
  void note_closing(int rank);

 private:
  struct Box {
    net::MailReceiver up;
    net::MailSender down;
    bool departed = false;
    bool closing = false;
  };
  base::Doorbell& bell(std::size_t local_index) const;

  const Segment& segment_;
  std::vector<Box> boxes_;
  net::Bytes message_;
};

}  // namespace tutti::control

#include "control/link_message.h"

#include <catch2/catch.hpp>

#include "tutti/error.h"

using namespace tutti::control;
namespace net = tutti::net;

TEST_CASE("a link message comes out as it went in") {
  const net::Bytes bytes = encode(LinkMessage::Kind::message, {0, 3, 2}, net::as_bytes("hello"));
  const LinkMessage message = decode_link_message(bytes, 4);
  CHECK(message.kind == LinkMessage::Kind::message);
  CHECK(message.ranks == std::vector<int>{0, 3, 2});
  CHECK(net::as_text(message.body) == "hello");
}

TEST_CASE("parcels that nobody of ours sends are refused") {
  const net::Bytes good = encode(LinkMessage::Kind::lost, {3}, net::as_bytes("why"));
  CHECK_NOTHROW(decode_link_message(good, 4));
  CHECK_THROWS_AS(decode_link_message(good, 3), tutti::Error);
  CHECK_THROWS_AS(decode_link_message(net::ConstBytes(good).first(7), 4), tutti::Error);
  CHECK_THROWS_AS(decode_link_message({}, 4), tutti::Error);
  CHECK_THROWS_AS(decode_link_message(encode(LinkMessage::Kind::lost, {}, {}), 4), tutti::Error);
  CHECK_THROWS_AS(decode_link_message(encode(static_cast<LinkMessage::Kind>(9), {}, {}), 4),
                  tutti::Error);
  net::Bytes many = encode(LinkMessage::Kind::message, {}, {});
  net::store_u32(many.data() + 1, 0xffffffffU);
  CHECK_THROWS_AS(decode_link_message(many, 4), tutti::Error);
}

#include "ps/durable/journal_format.h"

#include <sodium/crypto_generichash.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace tutti::ps {
namespace {

constexpr std::string_view magic = "tutti, journal 3\n";
constexpr std::string_view magic_of_all_versions = "tutti, journal ";

JournalHash hash_of(const JournalId& key, std::initializer_list<net::ConstBytes> parts) {
  JournalHash hash{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, net::as_unsigned(key.data()), key.size(), hash.size());
  for (const net::ConstBytes part : parts) {
    crypto_generichash_update(&state, net::as_unsigned(part.data()), part.size());
  }
  crypto_generichash_final(&state, net::as_unsigned(hash.data()), hash.size());
  return hash;
}

}  // namespace

net::Bytes JournalBeginning::encoded() const {
  net::Bytes to;
  net::append(to, net::as_bytes(magic));
  net::append(to, id);
  net::append_u64(to, job);
  net::append(to, follows.id);
  net::append_u64(to, follows.records);
  net::append(to, hash_of(id, {to}));
  return to;
}

const char* decode(net::ConstBytes bytes, JournalBeginning& beginning) {
  const std::string_view start = net::as_text(bytes.first(std::min(magic.size(), bytes.size())));
  if (!start.starts_with(magic_of_all_versions)) return "not a journal that tutti wrote";
  if (start != magic) return "a journal of another version of tutti; go on with that version";
  constexpr const char* damaged = "damaged: its beginning is not as tutti wrote it";
  if (bytes.size() < JournalBeginning::bytes) return damaged;
  net::ConstBytes rest = bytes.subspan(magic.size());
  const auto take = [&rest](std::size_t count) {
    const net::ConstBytes taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  std::ranges::copy(take(beginning.id.size()), beginning.id.begin());
  beginning.job = net::load_u64(take(8).data());
  std::ranges::copy(take(beginning.follows.id.size()), beginning.follows.id.begin());
  beginning.follows.records = net::load_u64(take(8).data());
  return std::ranges::equal(beginning.encoded(), bytes.first(JournalBeginning::bytes)) ? nullptr
                                                                                       : damaged;
}

JournalHash hash_of_record(const JournalId& id, std::uint64_t number, std::uint32_t length,
                           net::ConstBytes head, net::ConstBytes body) {
  std::array<std::byte, 12> place{};
  net::store_u64(place.data(), number);
  net::store_u32(place.data() + 8, length);
  return hash_of(id, {place, head, body});
}

net::Bytes mark_of(const JournalPlace& place) {
  net::Bytes mark;
  net::append_u32(mark, synced_mark);
  net::append(mark, hash_of_record(place.id, place.records, synced_mark, {}, {}));
  net::append(mark, place.id);
  net::append_u64(mark, place.records);
  return mark;
}

}  // namespace tutti::ps

// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/row.hpp"

#include <boost/crc.hpp>
#include <fstream>
#include <optional>
#include <vector>

namespace gpuinfer::probe {

namespace {

// A damaged page says something that cannot be.
class MalformedPage {};

void require_of_page(bool holds) {
  if (!holds) {
    throw MalformedPage();
  }
}

// Takes bytes apart. Numbers are big-endian.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}

  [[nodiscard]] std::size_t size() const { return left_.size(); }

  std::string_view take(std::uint64_t count) {
    require_of_page(count <= left_.size());
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t number = 0;
    for (const char byte : take(bytes)) {
      number = number << 8U | static_cast<unsigned char>(byte);
    }
    return number;
  }

  // 7 bits in each byte, bit 7 set in all but the last; all bits of a ninth one.
  std::uint64_t varint() {
    constexpr int last = 8;
    std::uint64_t number = 0;
    for (int i = 0; i < last; ++i) {
      const std::uint64_t byte = this->number(1);
      number = number << 7U | (byte & 0x7fU);
      if (byte < 0x80U) {
        return number;
      }
    }
    return number << 8U | this->number(1);
  }

 private:
  std::string_view left_;
};

class PageReader {
 public:
  explicit PageReader(const std::filesystem::path& file)
      : stream_(file, std::ios::binary), pages_(std::filesystem::file_size(file) / log_page_bytes) {}

  [[nodiscard]] std::uint64_t pages() const { return pages_; }

  // Numbered from 1.
  std::string page(std::uint64_t number) {
    require_of_page(number >= 1 && number <= pages_);
    std::string bytes(log_page_bytes, '\0');
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>((number - 1) * log_page_bytes));
    stream_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    require_of_page(stream_.good());
    return bytes;
  }

  // What a cell of a leaf holds, with what went to further pages.
  std::string payload(Bytes& cell, std::uint64_t payload_bytes) {
    constexpr std::uint64_t most_inline = log_page_bytes - 35;
    constexpr std::uint64_t least_inline = (log_page_bytes - 12) * 32 / 255 - 23;
    constexpr std::uint64_t page_number_bytes = 4;
    constexpr std::uint64_t of_further_page = log_page_bytes - page_number_bytes;
    if (payload_bytes <= most_inline) {
      return std::string(cell.take(payload_bytes));
    }
    require_of_page(payload_bytes <= pages_ * log_page_bytes);
    const std::uint64_t fitting = least_inline + (payload_bytes - least_inline) % of_further_page;
    std::string bytes(cell.take(fitting <= most_inline ? fitting : least_inline));
    std::uint64_t next = cell.number(page_number_bytes);
    while (bytes.size() < payload_bytes) {
      const std::string further = page(next);
      Bytes rest(further);
      next = rest.number(page_number_bytes);
      bytes += rest.take(std::min<std::uint64_t>(of_further_page, payload_bytes - bytes.size()));
    }
    return bytes;
  }

 private:
  std::ifstream stream_;
  std::uint64_t pages_;
};

struct Column {
  std::uint64_t number = 0;
  std::string bytes = {};
};

Column column_of(std::uint64_t type, Bytes& body) {
  constexpr std::array<std::size_t, 7> number_bytes{0, 1, 2, 3, 4, 6, 8};
  constexpr std::uint64_t zero = 8;
  constexpr std::uint64_t one = 9;
  constexpr std::uint64_t first_bytes = 12;
  if (type < number_bytes.size()) {
    return {.number = body.number(number_bytes[type])};
  }
  if (type == zero || type == one) {
    return {.number = type - zero};
  }
  require_of_page(type >= first_bytes);
  return {.bytes = std::string(body.take((type - first_bytes) / 2))};
}

std::optional<Row> row_of(std::uint64_t id, std::string_view payload) {
  Bytes record(payload);
  const std::uint64_t header_bytes = record.varint();
  const std::size_t length_bytes = payload.size() - record.size();
  require_of_page(header_bytes >= length_bytes);
  Bytes header(record.take(header_bytes - length_bytes));
  std::vector<Column> columns;
  while (header.size() > 0) {
    columns.push_back(column_of(header.varint(), record));
  }
  require_of_page(columns.size() == row_columns.size() + 1);
  const Row row{.id = id,
                .kind = static_cast<RowKind>(columns[1].number),
                .target = columns[2].bytes,
                .place = columns[3].number,
                .about = columns[4].bytes,
                .warm = columns[5].bytes,
                .record = columns[6].bytes,
                .latencies = columns[7].bytes};
  return checksum_of(row) == columns[8].number ? std::optional(row) : std::nullopt;
}

void salvage_page(PageReader& reader, const std::string& page, const std::function<void(const Row&)>& take) {
  constexpr std::uint64_t leaf_of_table = 0x0d;
  constexpr std::size_t before_cells = 3;
  constexpr std::uint64_t least_cell_bytes = 6;
  Bytes header(page);
  if (header.number(1) != leaf_of_table) {
    return;
  }
  static_cast<void>(header.take(2));  // the first free block
  const std::uint64_t cells = header.number(2);
  require_of_page(cells <= log_page_bytes / least_cell_bytes);
  static_cast<void>(header.take(before_cells));  // where cells begin, and how many bytes between them are free
  for (std::uint64_t i = 0; i < cells; ++i) {
    try {
      const std::uint64_t begin = header.number(2);
      require_of_page(begin < page.size());
      Bytes cell(std::string_view(page).substr(begin));
      const std::uint64_t payload_bytes = cell.varint();
      const std::uint64_t id = cell.varint();
      if (const auto row = row_of(id, reader.payload(cell, payload_bytes))) {
        take(*row);
      }
    } catch (const MalformedPage&) {
      // The next cell may be whole.
    }
  }
}

}  // namespace

std::uint32_t checksum_of(const Row& row) {
  boost::crc_32_type crc;
  const auto add = [&crc](std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    crc.process_bytes(&size, sizeof size);
    crc.process_bytes(bytes.data(), bytes.size());
  };
  const std::array<std::uint64_t, 3> numbers{row.id, static_cast<std::uint64_t>(row.kind), row.place};
  crc.process_bytes(numbers.data(), sizeof numbers);
  for (const std::string* bytes : {&row.target, &row.about, &row.warm, &row.record, &row.latencies}) {
    add(*bytes);
  }
  return crc.checksum();
}

void salvage_rows(const std::filesystem::path& database, const std::function<void(const Row&)>& take) {
  PageReader reader(database);
  for (std::uint64_t number = 1; number <= reader.pages(); ++number) {
    try {
      salvage_page(reader, reader.page(number), take);
    } catch (const MalformedPage&) {
      // The next page may be whole.
    }
  }
}

}  // namespace gpuinfer::probe

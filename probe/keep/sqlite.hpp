// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

// The part of the SQLite C API that an answer log needs, with owners for its handles.
namespace gpuinfer::probe::sqlite {

// What SQLite could not do, as the clause that follows "FILE: ".
class Failure : public std::runtime_error {
 public:
  Failure(int code, const std::string& what) : std::runtime_error(what), code_(code) {}

  // Another process has the file.
  [[nodiscard]] bool is_busy() const { return code_ == SQLITE_BUSY; }

 private:
  int code_;
};

class Database;

// Columns and parameters count from 0. Texts and blobs that are bound must live until the next reset().
class Statement {
 public:
  Statement(const Database& database, std::string_view sql);

  void bind(int parameter, std::uint64_t number);
  void bind_text(int parameter, std::string_view text);
  void bind_blob(int parameter, std::string_view bytes);
  // Whether there is a row. Throws Failure.
  [[nodiscard]] bool step();
  void run() { static_cast<void>(step()), reset(); }
  void reset() { sqlite3_reset(statement_.get()); }

  [[nodiscard]] std::uint64_t number(int column) const;
  [[nodiscard]] std::string bytes(int column) const;  // of a text, or a blob

 private:
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
};

class Database {
 public:
  enum class Open { existing, made };

  // What the file says of itself is not trusted: neither its triggers and views nor its sizes. Throws Failure.
  Database(const std::filesystem::path& file, Open open);

  void execute(const std::string& sql) const;
  // Writes to an open file what a file of this database holds, one in memory included. Throws Failure.
  void save(const std::filesystem::path& file) const;
  // Whether the file has its name no longer.
  [[nodiscard]] bool has_moved() const;
  [[nodiscard]] sqlite3* get() const { return database_.get(); }

 private:
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_;
};

}  // namespace gpuinfer::probe::sqlite

// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/sqlite.hpp"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace gpuinfer::probe::sqlite {

namespace {

constexpr int primary_codes = 0xff;

Failure failure_of(sqlite3* database) {
  const int code = sqlite3_errcode(database) & primary_codes;
  // SQLite forgets the error of the system where it has undone something since.
  const int error = sqlite3_system_errno(database) != 0 ? sqlite3_system_errno(database) : errno;
  const bool is_of_system = (code == SQLITE_IOERR || code == SQLITE_FULL || code == SQLITE_CANTOPEN) && error != 0;
  return {code, is_of_system ? std::error_code(error, std::generic_category()).message() : sqlite3_errmsg(database)};
}

void check(int code, sqlite3* database) {
  if (code != SQLITE_OK) {
    throw failure_of(database);
  }
}

}  // namespace

Database::Database(const std::filesystem::path& file, Open open) : database_(nullptr, sqlite3_close) {
  sqlite3* opened = nullptr;
  const int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE | (open == Open::made ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(file.c_str(), &opened, how, nullptr);
  database_.reset(opened);
  check(code, opened);
  // Of several that want it at once, one gets it.
  constexpr int patience_ms = 300;
  sqlite3_busy_timeout(opened, patience_ms);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
}

void Database::execute(const std::string& sql) const {
  check(sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr), get());
}

bool Database::has_moved() const {
  int moved = 0;
  sqlite3_file_control(get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved != 0;
}

void Database::save(const std::filesystem::path& file) const {
  sqlite3_int64 bytes = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> image(sqlite3_serialize(get(), "main", &bytes, 0),
                                                              sqlite3_free);
  if (!image) {
    throw Failure(SQLITE_NOMEM, "there is no memory for it");
  }
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(image.get()), bytes).flush();
  if (!stream) {
    throw Failure(SQLITE_IOERR, std::generic_category().message(errno));
  }
}

Statement::Statement(const Database& database, std::string_view sql)
    : database_(database.get()), statement_(nullptr, sqlite3_finalize) {
  sqlite3_stmt* prepared = nullptr;
  check(sqlite3_prepare_v3(database_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &prepared,
                           nullptr),
        database_);
  statement_.reset(prepared);
}

void Statement::bind(int parameter, std::uint64_t number) {
  check(sqlite3_bind_int64(statement_.get(), parameter + 1, static_cast<sqlite3_int64>(number)), database_);
}

void Statement::bind_text(int parameter, std::string_view text) {
  check(sqlite3_bind_text64(statement_.get(), parameter + 1, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8),
        database_);
}

void Statement::bind_blob(int parameter, std::string_view bytes) {
  check(sqlite3_bind_blob64(statement_.get(), parameter + 1, bytes.data(), bytes.size(), SQLITE_STATIC), database_);
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    const Failure failure = failure_of(database_);
    reset();
    throw failure;
  }
  return code == SQLITE_ROW;
}

std::uint64_t Statement::number(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

std::string Statement::bytes(int column) const {
  const void* begin = sqlite3_column_blob(statement_.get(), column);
  const int count = sqlite3_column_bytes(statement_.get(), column);
  return begin == nullptr ? std::string()
                          : std::string(static_cast<const char*>(begin), static_cast<std::size_t>(count));
}

}  // namespace gpuinfer::probe::sqlite

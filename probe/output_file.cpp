// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "model/errors.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::probe {

namespace {

constexpr mode_t permissions_before_umask = 0666;

std::string reason(int error) { return std::generic_category().message(error); }

InputError cannot_be_made(const fs::path& name, int error) {
  return InputError(name.string() + ": cannot be made (" + reason(error) +
                    "); name a file in a folder that exists and may be written to");
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// The end of a chain of links, which need not be there. rename() would replace the first link.
fs::path end_of_links(const fs::path& name) {
  constexpr int most_links = 40;  // as Linux
  fs::path file = name;
  for (int links = 0; links <= most_links; ++links) {
    std::error_code no_link;
    const fs::path next = fs::read_symlink(file, no_link);
    if (no_link) {
      return file;
    }
    file = next.is_absolute() ? next : folder_of(file) / next;
  }
  throw cannot_be_made(name, ELOOP);
}

// The files that a process has open stand there under names that no file can be given.
bool is_of_a_process(const fs::path& file) { return file.native().starts_with("/proc/"); }

// The first name of this process alone that `make` takes; none when it fails for another reason than that the name is
// taken, and errno tells which.
template <class Make>
fs::path first_free_name(const fs::path& folder, Make make) {
  for (int number = 0;; ++number) {
    fs::path name = folder / (".gpuinfer-" + std::to_string(getpid()) + "-" + std::to_string(number));
    if (make(name.c_str())) {
      return name;
    }
    if (errno != EEXIST) {
      return {};
    }
  }
}

// Of a file without a name. It needs /proc.
fs::path open_name(const FileDescriptor& file) { return "/proc/self/fd/" + std::to_string(file.number()); }

}  // namespace

Error not_whole(const std::string& name, const std::string& why) {
  return Error(name + ": could not be written whole" + (why.empty() ? "" : " (" + why + ")") +
               "; look for a full disk");
}

Destination destination_of(const fs::path& name) {
  if (name.empty()) {
    throw InputError("a name of a file is empty; write one");
  }
  struct stat status {};
  const bool exists = stat(name.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) {
    throw cannot_be_made(name, errno);
  }
  if (exists && S_ISDIR(status.st_mode)) {
    throw InputError(name.string() + ": is a folder; name a file in it");
  }
  const fs::path file = end_of_links(name);
  const bool is_regular = (!exists || S_ISREG(status.st_mode)) && !is_of_a_process(file);
  if (is_regular &&
      (!file.has_filename() || faccessat(AT_FDCWD, folder_of(file).c_str(), W_OK | X_OK, AT_EACCESS) != 0)) {
    throw cannot_be_made(name, file.has_filename() ? errno : ENOENT);
  }
  if (exists && faccessat(AT_FDCWD, name.c_str(), W_OK, AT_EACCESS) != 0) {
    throw cannot_be_made(name, errno);
  }
  return {.file = is_regular ? file : name, .is_regular = is_regular};
}

OutputFile::OutputFile(const fs::path& name) {
  const Destination destination = destination_of(name);
  if (!destination.is_regular) {
    throw InputError(name.string() + ": is a device or a pipe, and a file is written; name another one");
  }
  file_ = destination.file;
  const fs::path folder = folder_of(file_);
  constexpr int how = O_RDWR | O_CLOEXEC;
  open_ = FileDescriptor(open(folder.c_str(), O_TMPFILE | how, permissions_before_umask));
  if (!open_.is_open() || access(open_name(open_).c_str(), F_OK) != 0) {
    temporary_ = first_free_name(folder, [this](const char* unused) {
      open_ = FileDescriptor(open(unused, O_CREAT | O_EXCL | O_NOFOLLOW | how, permissions_before_umask));
      return open_.is_open();
    });
  }
  if (!open_.is_open()) {
    throw cannot_be_made(name, errno);
  }
}

OutputFile::~OutputFile() {
  if (has_name()) {
    unlink(temporary_.c_str());
  }
}

fs::path OutputFile::working_name() const { return has_name() ? temporary_ : open_name(open_); }

// The owner first: a change of it takes permissions away. Only root can change it.
void OutputFile::keep_permissions() const {
  struct stat before {};
  if (stat(file_.c_str(), &before) == 0) {
    constexpr mode_t permissions = 0777;
    [[maybe_unused]] const int is_of_another = fchown(open_.number(), before.st_uid, before.st_gid);
    fchmod(open_.number(), before.st_mode & permissions);
  }
}

void OutputFile::bring_to_disk() const {
  if (fsync(open_.number()) != 0) {
    throw not_whole(file_.string(), reason(errno));
  }
}

// So that it still has its name after a power cut.
void OutputFile::bring_name_to_disk() {
  if (const FileDescriptor folder(open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      folder.is_open()) {
    fsync(folder.number());
  }
  open_.close();
}

bool OutputFile::publish_as_new() {
  bring_to_disk();
  // link() takes no other file's place.
  if (linkat(AT_FDCWD, working_name().c_str(), AT_FDCWD, file_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno == EEXIST) {
      return false;
    }
    throw not_whole(file_.string(), reason(errno));
  }
  if (has_name()) {
    unlink(temporary_.c_str());
    temporary_.clear();
  }
  bring_name_to_disk();
  return true;
}

void OutputFile::publish() {
  keep_permissions();
  bring_to_disk();
  if (!has_name()) {
    // rename() takes the place of another file, which link() does not.
    temporary_ = first_free_name(folder_of(file_), [this](const char* unused) {
      return linkat(AT_FDCWD, open_name(open_).c_str(), AT_FDCWD, unused, AT_SYMLINK_FOLLOW) == 0;
    });
  }
  if (!has_name() || rename(temporary_.c_str(), file_.c_str()) != 0) {
    throw not_whole(file_.string(), reason(errno));
  }
  temporary_.clear();
  bring_name_to_disk();
}

}  // namespace gpuinfer::probe

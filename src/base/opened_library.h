// Finds the files of libraries that the program opens at run time with dlopen(), for messages about an installation.
// Thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace plimsoll {

// A name under which a library was searched without success.
struct LibraryAttempt {
  std::string name;
  std::string error;  // the loader's message
};

struct LibrarySearch {
  std::string file;                   // the file that the loader opened; "" if it opened none
  std::vector<LibraryAttempt> tried;  // names before the one that was found, in order
};

// Opens the library under the first of these names that the loader finds, and closes it again. Errors: none. Cost: that of dlopen(),
// some ms for a large library.
LibrarySearch search_library(std::span<const std::string> names);

// Returns the folders in which the loader searches for a name without a path, in order: LD_LIBRARY_PATH, the run path of the program, and
// the folders of the system. The cache of ldconfig, which the loader reads in addition, is not among them.
std::vector<std::string> loader_folders();

}  // namespace plimsoll

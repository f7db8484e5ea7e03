// Finds functions in libraries that the program opens at run time with dlopen(). Thread-safe.
#pragma once

#include <dlfcn.h>

namespace plimsoll {

// Sets `function`, a pointer to a function of the type that the header of the library declares, to the function of this name. Returns false, and
// sets it to null, if the library has none; dlerror() then has the reason.
template <typename Function>
bool find_library_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace plimsoll

// Opens libraries of optional hardware at run time, when they are needed; nothing links against them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace tombolo {

/// An open shared library. Owns the handle; move-only. Functions taken from it are valid while it lives.
class DynamicLibrary {
 public:
  /// Opens the first of `names` that can be opened. Nothing where none can; then `*problem`, if given, says
  /// why (the loader's message for each name).
  static std::optional<DynamicLibrary> open(std::initializer_list<const char*> names,
                                            std::string* problem = nullptr);
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  ~DynamicLibrary();

  /// Puts the address of `name` in `function`; false (and null) where the library lacks it.
  template <typename Function>
  bool find(const char* name, Function*& function) const noexcept {
    function = reinterpret_cast<Function*>(symbol(name));
    return function != nullptr;
  }
  /// The name under which it was opened.
  const std::string& name() const noexcept { return name_; }

 private:
  DynamicLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* symbol(const char* name) const noexcept;
  void* handle_;
  std::string name_;
};

}  // namespace tombolo

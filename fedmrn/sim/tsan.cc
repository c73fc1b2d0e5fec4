// oneDNN is not built for the thread sanitizer, which therefore cannot see how
// it guards its own data; of what calls it, all is watched.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libdnnl.so.2\n"
         "race:libdnnl.so.2\n";
}

// The one function of libatomic that Node 26 needs, for systems without that library. bin/node adds
// it to the loader's path only there. build.sh makes the files in bin/lib from this.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static int lock;

static bool same(const volatile uint8_t *a, const volatile uint8_t *b, size_t size) {
  while (size-- > 0)
    if (a[size] != b[size]) return false;
  return true;
}

static void copy(volatile uint8_t *to, const volatile uint8_t *from, size_t size) {
  while (size-- > 0) to[size] = from[size];
}

// Sizes that the processor exchanges by itself: inlined code elsewhere does so, too.
#define EXCHANGE(type)                                                                          \
  if (size == sizeof(type) && (uintptr_t)object % sizeof(type) == 0)                            \
    return __atomic_compare_exchange_n((type *)object, (type *)expected, *(type *)desired, false, \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

bool compare_exchange(size_t size, void *object, void *expected, void *desired, int success,
                      int failure) __asm__("__atomic_compare_exchange");

bool compare_exchange(size_t size, void *object, void *expected, void *desired, int success,
                      int failure) {
  (void)success, (void)failure;  // The strongest order serves for all.
  EXCHANGE(uint8_t);
  EXCHANGE(uint16_t);
  EXCHANGE(uint32_t);
  EXCHANGE(uint64_t);
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_SEQ_CST) != 0) {
  }
  bool is_same = same(object, expected, size);
  if (is_same) copy(object, desired, size);
  else copy(expected, object, size);
  __atomic_store_n(&lock, 0, __ATOMIC_SEQ_CST);
  return is_same;
}

/* Arrays of every dtype, whose elements the tests see as doubles. */
#include <math.h>

#include "fixture.h"

static const tutti_device CPU = {TUTTI_CPU, 0};

size_t dtype_size(int dtype) {
  static const size_t sizes[] = {2, 2, 4, 8, 1, 1, 4, 8, 1, 2, 4, 8, 16};
  return sizes[dtype];
}

tutti_tensor* on_device(void* data, size_t count, int dtype, tutti_device device) {
  const int64_t dims[1] = {(int64_t)count};
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(data, dims, 1, dtype, device, NULL, NULL, &tensor));
  return tensor;
}

tutti_tensor* over(void* data, const int64_t* dims, size_t rank, int dtype) {
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(data, dims, rank, dtype, CPU, NULL, NULL, &tensor));
  return tensor;
}

array make_array(size_t count, int dtype) {
  array made = {NULL, NULL, NULL, count, dtype};
  made.data = made.own = calloc(count + 1, dtype_size(dtype));
  made.tensor = on_device(made.data, count, dtype, CPU);
  return made;
}

array allocate_array(tutti_store* store, size_t count, int dtype) {
  const int64_t dims[1] = {(int64_t)count};
  array made = {NULL, NULL, NULL, count, dtype};
  CHECK_OK(tutti_store_allocate(store, dims, 1, dtype, &made.tensor));
  made.data = tutti_tensor_data(made.tensor);
  return made;
}

void drop(array* gone) {
  tutti_tensor_destroy(gone->tensor);
  free(gone->own);
}

void drop_all(array* gone, size_t count) {
  for (size_t i = 0; i < count; ++i) drop(&gone[i]);
}

float* floats(const array* of) {
  return of->data;
}

/* A 16-bit float with so many bits of fraction: `x` must be one of its normal values, or zero. */
static uint16_t to_half(double x, int fraction_bits, int bias) {
  if (x == 0) return 0;
  const int exponent = ilogb(x);
  const long fraction = lround(ldexp(fabs(x), fraction_bits - exponent));
  const long magnitude = ((long)(exponent + bias - 1) << fraction_bits) + fraction;
  return (uint16_t)(magnitude | (x < 0 ? 0x8000 : 0));
}

static double from_half(uint16_t bits, int fraction_bits, int bias) {
  const int magnitude = bits & 0x7fff;
  const int exponent = magnitude >> fraction_bits;
  const int fraction = magnitude & ((1 << fraction_bits) - 1);
  const int unit = exponent == 0 ? 0 : 1 << fraction_bits;
  const double value =
      ldexp(unit + fraction, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
  return (bits & 0x8000) != 0 ? -value : value;
}

#define PUT(type, from)                   \
  do {                                    \
    const type element = (type)(from);    \
    memcpy(at, &element, sizeof element); \
  } while (0)

void put(const array* to, size_t i, double value) {
  char* const at = (char*)to->data + i * dtype_size(to->dtype);
  switch (to->dtype) {
    case TUTTI_F16:
      PUT(uint16_t, to_half(value, 10, 15));
      break;
    case TUTTI_BF16:
      PUT(uint16_t, to_half(value, 7, 127));
      break;
    case TUTTI_F32:
      PUT(float, value);
      break;
    case TUTTI_F64:
      PUT(double, value);
      break;
    case TUTTI_I8:
      PUT(int8_t, value);
      break;
    case TUTTI_U8:
      PUT(uint8_t, value);
      break;
    case TUTTI_I32:
      PUT(int32_t, value);
      break;
    default:
      PUT(int64_t, value);
      break;
  }
}

#define GET(type, number)                 \
  do {                                    \
    type element;                         \
    memcpy(&element, at, sizeof element); \
    return (double)(number);              \
  } while (0)

double get(const array* from, size_t i) {
  const char* const at = (const char*)from->data + i * dtype_size(from->dtype);
  switch (from->dtype) {
    case TUTTI_F16:
      GET(uint16_t, from_half(element, 10, 15));
    case TUTTI_BF16:
      GET(uint16_t, from_half(element, 7, 127));
    case TUTTI_F32:
      GET(float, element);
    case TUTTI_F64:
      GET(double, element);
    case TUTTI_I8:
      GET(int8_t, element);
    case TUTTI_U8:
      GET(uint8_t, element);
    case TUTTI_I32:
      GET(int32_t, element);
    default:
      GET(int64_t, element);
  }
}

void fill(const array* to, double value) {
  for (size_t i = 0; i < to->count; ++i) put(to, i, value);
}

size_t unlike(const array* in, double value) {
  size_t unlike = 0;
  for (size_t i = 0; i < in->count; ++i) unlike += get(in, i) != value;
  return unlike;
}

float value_of(int rank, size_t key, int turn, size_t i) {
  const uint64_t mixed =
      (uint64_t)rank * 7919 + key * 104729 + (uint64_t)turn * 1299709 + i * 15485863;
  return (float)(mixed % 1000);
}

float sum_of(int ranks, size_t key, int turn, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, key, turn, i);
  return sum;
}

void fill_values(const array* to, int rank, size_t key, int turn) {
  for (size_t i = 0; i < to->count; ++i) floats(to)[i] = value_of(rank, key, turn, i);
}

size_t wrong_sums(const array* in, int ranks, size_t key, int turn) {
  size_t wrong = 0;
  for (size_t i = 0; i < in->count; ++i) wrong += floats(in)[i] != sum_of(ranks, key, turn, i);
  return wrong;
}

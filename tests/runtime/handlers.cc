// Handlers of XLA's foreign function interface for the tests of compiled kernels.
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = factor * x; a negative factor is an error.
static ffi::Error Scale(double factor, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (factor < 0) return ffi::Error::InvalidArgument("factor is negative");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(test_scale, Scale,
                              ffi::Ffi::Bind()
                                  .Attr<double>("factor")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Quotients and remainders, and the address that they were read from.
static ffi::Error Divide(ffi::Buffer<ffi::S64> x, ffi::Buffer<ffi::S64> y, ffi::ResultBuffer<ffi::S64> quotient,
                         ffi::ResultBuffer<ffi::S64> remainder, ffi::ResultBuffer<ffi::U64> address) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    quotient->typed_data()[i] = x.typed_data()[i] / y.typed_data()[i];
    remainder->typed_data()[i] = x.typed_data()[i] % y.typed_data()[i];
  }
  address->typed_data()[0] = reinterpret_cast<uint64_t>(x.typed_data());
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(test_divide, Divide,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::Buffer<ffi::U64>>());

// A fake CUDA driver that has no functions. A program that opens it finds no GPU, and a test can detect that
// the program opened it. The library is built as libcuda.so.1 in a folder of its own.
extern "C" int plimsoll_fake_cuda() {
  return 0;
}

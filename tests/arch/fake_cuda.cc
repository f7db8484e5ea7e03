// A CUDA driver without functions: a program that opens it finds no GPU, and a test can detect that it was
// opened. Built as libcuda.so.1 in its own folder.
extern "C" int plimsoll_fake_cuda() {
  return 0;
}

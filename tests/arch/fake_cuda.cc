// A CUDA driver that has no function: who opens it learns that there is no GPU, and a test learns that it was
// opened. Built as libcuda.so.1 in a folder of its own.
extern "C" int plimsoll_fake_cuda() {
  return 0;
}

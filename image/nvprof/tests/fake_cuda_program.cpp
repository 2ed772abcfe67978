// A program that uses CUDA, as far as its profiler can tell: it does what its arguments say,
// one after the other.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
void fake_pass(uint64_t ns);
void fake_enter(const char *name, uint32_t id, const char *kernel);
void fake_unload();
void fake_leave(const char *name, uint32_t id);
void fake_kernel(const char *name, uint64_t ns);
void fake_copy(int kind, uint64_t bytes, uint64_t ns);
void fake_set(uint64_t bytes, uint64_t ns);
void fake_drop(size_t activities);
void fake_peer_copy(uint64_t bytes, uint64_t ns);
void fake_device(uint32_t id);
void fake_result(int code);
}

namespace {

// What the driver does at cuInit.
void init()
{
    static bool done;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (done || !path)
        return;
    done = true;
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(99);
    }
    ((int (*)())dlsym(library, "InitializeInjection"))();
}

void call(const std::string &name, uint64_t ns)
{
    uint32_t id = 0;
    for (const char c : name)
        id = (id * 31 + c) % 1000;
    fake_enter(name.c_str(), id, nullptr);
    fake_pass(ns);
    fake_leave(name.c_str(), id);
}

void launch(const std::string &kernel, uint64_t ns)
{
    fake_enter("cudaLaunchKernel_v7000", 211, kernel.c_str());
    call("cuLaunchKernel", 1000);  // the runtime's own, which nobody asked for
    fake_kernel(kernel.c_str(), ns);
    fake_pass(1000);
    fake_leave("cudaLaunchKernel_v7000", 211);
}

void launch_graph(const std::vector<std::string> &kernels)
{
    fake_enter("cudaGraphLaunch_v10000", 307, nullptr);
    for (const auto &kernel : kernels)
        fake_kernel(kernel.c_str(), 10);
    fake_leave("cudaGraphLaunch_v10000", 307);
}

std::vector<std::string> words(const std::string &argument)
{
    std::vector<std::string> found{""};
    for (const char c : argument)
        if (c == ',')
            found.emplace_back();
        else
            found.back() += c;
    return found;
}

}  // namespace

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const auto w = words(argv[i]);
        const auto number = [&](size_t n) {
            return n < w.size() ? strtoull(w[n].c_str(), nullptr, 10) : 0;
        };
        if (w[0] == "say") {
            puts(w[1].c_str());
            fflush(stdout);
        } else if (w[0] == "init") {
            init();
        } else if (w[0] == "launch") {  // launch,KERNEL,NS,TIMES
            for (uint64_t n = 0; n < (w.size() > 3 ? number(3) : 1); n++)
                launch(w[1], number(2));
        } else if (w[0] == "graph") {  // graph,KERNEL...
            launch_graph({w.begin() + 1, w.end()});
        } else if (w[0] == "unload") {
            fake_unload();
        } else if (w[0] == "call") {  // call,FUNCTION,NS
            call(w[1], number(2));
        } else if (w[0] == "copy") {  // copy,KIND,BYTES,NS
            fake_copy(number(1), number(2), number(3));
        } else if (w[0] == "peer") {
            fake_peer_copy(number(1), number(2));
        } else if (w[0] == "device") {
            fake_device(number(1));
        } else if (w[0] == "result") {
            fake_result(number(1));
        } else if (w[0] == "closeall") {  // closeall,FILE: as daemons do; then a file of its own
            for (int fd = 3; fd < 64; fd++)
                close(fd);
            const std::string text(75000, 'x');
            const int fd = open(w[1].c_str(), O_CREAT | O_WRONLY, 0600);
            if (write(fd, text.data(), text.size()) != (ssize_t)text.size())
                return 97;
        } else if (w[0] == "set") {
            fake_set(number(1), number(2));
        } else if (w[0] == "drop") {
            fake_drop(number(1));
        } else if (w[0] == "pass") {
            fake_pass(number(1));
        } else if (w[0] == "sleep") {
            usleep(1000 * number(1));
        } else if (w[0] == "threads") {  // threads,COUNT,CALLS
            std::vector<std::thread> threads;
            for (uint64_t t = 0; t < number(1); t++)
                threads.emplace_back([&] {
                    for (uint64_t n = 0; n < number(2); n++)
                        call("cudaStreamQuery_v3020", 0);
                });
            for (auto &thread : threads)
                thread.join();
        } else if (w[0] == "fork") {  // what follows is the child's, up to `join`; the parent waits
            if (const pid_t child = fork()) {
                int status = 0;
                waitpid(child, &status, 0);
                while (i < argc && strcmp(argv[i], "join"))
                    i++;
                if (i == argc)
                    return WEXITSTATUS(status);
            }
        } else if (w[0] == "join") {
            return 0;
        } else if (w[0] == "kill") {
            raise(number(1));
        } else if (w[0] == "_exit") {
            _exit(number(1));
        } else if (w[0] == "exit") {
            exit(number(1));
        } else {
            return 98;
        }
    }
    return 0;
}

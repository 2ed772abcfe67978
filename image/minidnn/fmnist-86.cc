// fmnist-86 FOLDER: write the test images at 86 x 86, for programs that read the course's files.

#include "minidnn.h"

#include <fstream>
#include <iostream>
#include <stdexcept>

int main(int argc, char **argv)
try {
    const Images images = test_images(10000);
    if (argc != 2 || images.labels.empty()) {
        std::cerr << "fmnist-86 FOLDER: give a folder, and Fashion-MNIST in RAI_DATA_DIR or /data.\n";
        return 2;
    }
    const auto number = [](int n) { return std::string{char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; };
    const std::string name = std::string(argv[1]) + "/t10k-86-", count = number(images.count);
    std::ofstream pixels(name + "images-idx3-ubyte"), labels(name + "labels-idx1-ubyte");
    pixels << number(0x803) << count << number(86) << number(86);
    pixels << std::string(images.pixels.begin(), images.pixels.end()) << std::flush;
    labels << number(0x801) << count;
    labels << std::string(images.labels.begin(), images.labels.end()) << std::flush;
    if (!pixels || !labels)
        throw std::runtime_error(std::string("cannot write the images into ") + argv[1]);
} catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << ".\n";
    return 1;
}

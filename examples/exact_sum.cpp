/* exact_sum.cpp - C++: 24 lists of numbers are added up, and the sum has the same bits however many
 * ranks share the lists.
 *
 *     c++ exact_sum.cpp -o sum $(pkg-config --cflags --libs dtrain-dist) && mpirun -np 5 ./sum */
#include <dtrain/dist.h>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

static void must(int code)
{
    if (code != DTD_OK)
        throw std::runtime_error(dtd_error());
}

/* Numbers of very different sizes: another order of adding them gives another sum. */
static std::vector<float> leaf_of(int leaf)
{
    std::vector<float> x(1000);
    uint64_t state = 1 + static_cast<uint64_t>(leaf);
    for (float &value : x) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        value = static_cast<float>(static_cast<int64_t>(state)) /
                static_cast<float>(uint64_t{1} << (state >> 40 & 63));
    }
    return x;
}

static void run()
{
    const int leaves = 24;
    std::vector<float> sum(1000);
    const dtd_tensor shape = {nullptr, sum.size(), DTD_F32, "numbers"};
    dtd_sum *exact = nullptr;
    must(dtd_sum_new(&exact, leaves, &shape, 1, nullptr));
    for (int leaf = dtd_rank(nullptr); leaf < leaves; leaf += dtd_size(nullptr)) {
        const std::vector<float> x = leaf_of(leaf);
        const void *data = x.data();
        must(dtd_sum_leaf(exact, leaf, &data));
    }
    void *result = sum.data();
    must(dtd_sum_finish(exact, &result));
    dtd_sum_free(exact);

    uint64_t hash = 14695981039346656037U; /* FNV-1a over the bytes */
    for (float value : sum) {
        unsigned char bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        for (unsigned char byte : bytes)
            hash = (hash ^ byte) * 1099511628211U;
    }
    if (dtd_rank(nullptr) == 0)
        std::printf("sum of %d leaves: %016" PRIx64 "\n", leaves, hash);
}

int main(int argc, char **argv)
{
    try {
        must(dtd_init(&argc, &argv));
        run();
        must(dtd_finalize());
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return DTD_BUG;
    }
    return DTD_OK;
}

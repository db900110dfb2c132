// Positions that attention takes together, and the order in which lanes are summed.

const uint RANGE = 128;              // from 0 on: whose scores, and sums of values, a workgroup makes together
const uint CHUNK = 64;               // from 0 on: whose sum of values is made key after key
const uint SUMMED_POSITIONS = 1024;  // from a row's first position on: whose weights are summed in LANES lanes
const uint LANES = 16;
#define NOTHING uintBitsToFloat(0xff800000u)  // -infinity: the largest score of no keys

// Of LANES floats of a shared array, in halves.
#define SUM_OF_LANES(array, at) sum_of_lanes(float[16](array[at], array[at + 1], array[at + 2], array[at + 3], \
    array[at + 4], array[at + 5], array[at + 6], array[at + 7], array[at + 8], array[at + 9], array[at + 10], \
    array[at + 11], array[at + 12], array[at + 13], array[at + 14], array[at + 15]))

float sum_of_lanes(float part[LANES]) {
  for (uint n = LANES / 2; n > 0; n /= 2)
    for (uint i = 0; i < n; i++) {
      precise float sum = part[i] + part[i + n];
      part[i] = sum;
    }
  return part[0];
}

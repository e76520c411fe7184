"""Prints show and click of keys of a running job as JSON.

Usage: statistics_client.py ENDPOINTS TABLE_ID KEY...
"""

import json
import sys

import wire_client


def main():
    client = wire_client.Client(sys.argv[1].split(","), reads_only=True)
    keys = [int(key) for key in sys.argv[3:]]
    statistics = client.pull_statistics(int(sys.argv[2]), keys)
    print(json.dumps({str(key): value for key, value in statistics.items()}))


if __name__ == "__main__":
    main()

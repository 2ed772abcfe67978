"""Which addresses are private, in whatever form they are written."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network

import pytest

from runner.core.policy import PRIVATE, is_in, is_private, network


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254"),
        *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("192.0.0.192", "198.18.0.1", "198.19.255.255"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0"),
        *("fec0::1", "ff02::1", "2001::1", "2001:0:ffff::1"),
        # of IPv4, within IPv6
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
        *("::127.0.0.1", "::10.0.0.1"),
        *("64:ff9b::192.168.0.1", "64:ff9b:1::1"),
        *("2002:7f00:1::", "2002:c0a8:101::1"),
    ],
)
def test_addresses_of_this_machine_and_of_networks_around_it_are_private(
    address: str,
) -> None:
    assert is_private(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.0.1", "100.128.0.1"),
        *("126.0.0.1", "128.0.0.1", "172.15.0.1", "172.32.0.1", "192.167.1.1"),
        *("192.0.1.1", "198.17.0.1", "198.20.0.1", "2001:1::1"),
        *("192.0.2.1", "198.51.100.1", "203.0.113.7", "223.255.255.255"),
        *("2606:4700::1111", "2001:db8::1", "::ffff:1.1.1.1", "64:ff9b::8.8.8.8"),
        *("2002:808:808::1", "fbff::1"),
    ],
)
def test_other_addresses_are_public(address: str) -> None:
    assert not is_private(ip_address(address))


def test_an_address_is_found_in_a_network_of_ipv4_by_each_of_its_forms() -> None:
    lab = [IPv4Network("10.1.0.0/16")]
    inside = ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::")
    assert all(is_in(ip_address(each), lab) for each in inside)
    assert not is_in(ip_address("10.2.0.1"), lab)
    assert not is_in(ip_address("::ffff:10.2.0.1"), lab)


def test_no_private_network_is_listed_twice() -> None:
    assert len(set(PRIVATE)) == len(PRIVATE)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10.1.0.0/16", "10.1.0.0/16"),
        ("10.1.2.3/16", "10.1.0.0/16"),
        (" 127.0.0.1 ", "127.0.0.1/32"),
        ("[::1]", "::1/128"),
        ("fd00::/8", "fd00::/8"),
    ],
)
def test_a_text_names_a_network_or_one_address(text: str, meant: str) -> None:
    assert network(text) == ip_network(meant)


@pytest.mark.parametrize("text", ["files.lab", "", "10.1", "10.0.0.0/33"])
def test_other_texts_name_no_network(text: str) -> None:
    assert network(text) is None

"""Who is not the tenant asks for the tenant's texts, by every way that an audit found, with the firewall on and off."""
